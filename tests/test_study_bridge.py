"""The study of first-order maps: complete, what its script computes, and right where the answer is known."""

from dataclasses import replace

import _derivatives
import _table
import bridge
import numpy as np
import pandas as pd
import pytest
import torch

import tasksym as ts

NETWORKS = [(family, seed) for family in bridge.FAMILIES for seed in ts.REFERENCE_SEEDS]


def stored(name):
    return pd.read_csv(_table.FOLDER / f"{name}.csv")


@pytest.fixture(scope="module")
def network():
    return bridge.Network.of("context-integration", 106)


def test_the_jacobian_is_that_of_autograd(network):
    trials = bridge.some(network.trials, slice(2))
    for mask in (trials.mask, trials.mask & (np.arange(60) % 7 == 3)):
        some = replace(trials, mask=mask)

        def outputs(W_hh, some=some):
            outputs = network.solutions.weights.variants(0, W_hh[None]).rollout(some.inputs)[1][0]
            return outputs[torch.from_numpy(some.mask)].transpose(0, 1).flatten()

        expected = torch.autograd.functional.jacobian(outputs, torch.from_numpy(network.W))
        found = _derivatives.output_jacobian(network.solutions, 0, some)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_the_jacobian_has_an_output_for_every_channel_and_step_that_counts():
    network = bridge.Network.of("flip-flop", 101)
    trials = bridge.some(network.trials, slice(2))
    jacobian = _derivatives.output_jacobian(network.solutions, 0, trials)
    K = network.W - network.sectors.ablate("CR")
    per_trial = (torch.tensordot(jacobian, torch.from_numpy(K), 2) ** 2).sum() / _derivatives.variance(trials)
    (tangent,) = _derivatives.curvature(network.solutions, 0, K[None], trials)
    assert len(jacobian) == 2 * 60 * 3
    assert float(per_trial) == pytest.approx(tangent, rel=1e-10)


def test_no_basis_changes_the_sum_and_none_beats_the_best(network):
    rng = np.random.default_rng(3)
    J = network.jacobian[::7]
    U, V = bridge.rotation(64, rng), bridge.rotation(64, rng)
    S, plain = bridge.sensitivity(J, U, V), bridge.sensitivity(J, np.eye(64))
    one = (U[:, [5]].T @ J.numpy() @ V[:, [9]]).ravel()
    assert S[5, 9] == pytest.approx(np.sqrt(np.mean(one**2)), rel=1e-12)
    assert (S**2).sum() == pytest.approx((plain**2).sum(), rel=1e-12)
    values = np.linalg.svd(J.flatten(1).numpy(), compute_uv=False) ** 2
    best = bridge.best_share(J, 41, rng)
    assert best == pytest.approx(values[:41].sum() / values.sum(), rel=1e-3)
    source = np.linalg.eigvalsh((J.mT @ J).mean(dim=0).numpy())[::-1]
    sums = np.sort((S**2).sum(axis=0))[::-1]
    assert (sums.cumsum() <= source.cumsum() * (1 + 1e-9)).all()


def test_compounded_is_exact_where_tanh_is_a_straight_line():
    """With inputs of a hundredth of a thousandth, so are all states."""
    network = bridge.Network.of("copy-dense-orthogonal", 102)
    small = replace(network.trials, inputs=1e-5 * network.trials.inputs[:, :8], targets=network.trials.targets[:, :8])
    network = replace(network, trials=small)
    K = 0.7 * (network.W - network.sectors.ablate("RR"))
    squares = [_derivatives.curvature(network.solutions, 0, K[None], small, how)[0] for how in (False, True)]
    first, compounded = np.sqrt(squares)
    change = bridge.consequences(network, [network.W - K])["change"][0]
    assert compounded == pytest.approx(change, rel=1e-6)
    assert first > 1.1 * change


def test_axes_of_pairs_are_turned_and_nothing_else(network):
    schur = network.sectors.schur
    Q = bridge.schur_basis(schur, network.states())
    np.testing.assert_allclose(Q.T @ Q, np.eye(64), atol=1e-12)
    T, block = Q.T @ schur.W @ Q, bridge.block_of(schur)
    assert np.abs(T[block[:, None] > block]).max() < 1e-12
    for mask, name in zip(bridge.part_masks(network.sectors).values(), ts.COUPLINGS, strict=True):
        assert np.linalg.norm(T[mask]) == pytest.approx(network.sectors.mass[name], rel=1e-9)


def test_auc_counts_pairs():
    values, positive = np.array([1.0, 2.0, 3.0, 3.0, 5.0]), np.array([False, True, False, True, True])
    pairs = [(a > b) + 0.5 * (a == b) for a in values[positive] for b in values[~positive]]
    assert bridge.auc(values, positive) == pytest.approx(np.mean(pairs))
    assert np.isnan(bridge.auc(values, positive | True))


def test_concentration_has_a_row_for_every_network_and_basis():
    table = stored("bridge")
    assert list(table.columns) == bridge.COLUMNS
    assert not table.duplicated(["family", "seed", "basis", "draw"]).any()
    assert list(table[["family", "seed"]].drop_duplicates().itertuples(index=False, name=None)) == NETWORKS
    assert (table.groupby("basis").size() % 80 == 0).all()
    assert {"elementary", "random", "Schur", "PCA", "moment", "two-sided", "best"} <= set(table["basis"])
    assert table["share"].between(bridge.TOP, 1).all()
    best = table[table["basis"] == "best"].set_index(["family", "seed"])["share"]
    trained = table[~table["basis"].str.startswith("start")].groupby(["family", "seed"])["share"].max()
    assert len(trained) == 80 and (trained / best).max() < 1.01


def test_entries_has_rows_for_every_network_and_basis():
    table = stored("bridge-entries")
    assert list(table.columns) == bridge.ENTRY_COLUMNS
    assert not table.duplicated(["family", "seed", "basis", "part"]).any()
    counts = table.groupby(["part", "basis"]).size()
    assert (counts[["drawn", "most", "both"]] == 80).all() and (counts[["CR", "CC"]] == 64).all()
    assert set(table["basis"]) == set(bridge.BASES)
    assert table.filter(like="rank_").stack().dropna().between(-1, 1).all()
    assert table.filter(like="auc_").stack().dropna().between(0, 1).all()
    assert (table[["harmless", "destructive", "missed", "alarms"]].le(table["count"], axis=0)).all(axis=None)


def test_blocks_has_rows_for_every_network_basis_coupling_and_dose():
    table = stored("bridge-blocks")
    assert list(table.columns) == bridge.BLOCK_COLUMNS
    once = table["part"].isin(["insensitive", "weak"])
    doses = table[~once].groupby(["basis", "family", "seed", "part"]).size()
    for basis in bridge.BASES:
        assert (doses[basis] == bridge.DOSES_OF.get(basis, 1)).all()
    counts = table[table["dose"] == 1].groupby(["part", "basis"]).size()
    assert (counts[["CR", "CC"]] == 64).all() and (counts["insensitive"] == 80).all()
    # Nearly all entries of a Cayley network are zero in Schur directions: there is nothing weak to remove.
    assert counts["weak", "Schur"] == 64 and (counts["weak"].drop("Schur") == 80).all()
    assert set(table.loc[once, "basis"]) == set(bridge.CUT)
    small = table[table["dose"] == min(bridge.DOSES)]
    assert (small["change"] / small["first"]).median() == pytest.approx(1, abs=0.05)


def test_concentration_is_what_its_script_computes():
    family, seed = NETWORKS[np.random.default_rng(12).choice(len(NETWORKS))]
    fresh = bridge.measure(family, seed, ["elementary", "random", "Schur", "PCA", "two-sided"])
    keys = ["family", "seed", "basis", "draw"]
    both = fresh.merge(stored("bridge"), on=keys, validate="one_to_one", suffixes=("", "_stored"))
    assert len(both) == len(fresh) == 4 + bridge.DRAWS
    for column in ("share", "directions", "source", "target"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], rtol=2e-3, err_msg=column)


def test_entries_is_what_its_script_computes():
    seed = int(np.random.default_rng(13).choice(ts.REFERENCE_SEEDS))
    fresh = bridge.entries("copy-dense-orthogonal", seed, ["PCA"])
    keys = ["family", "seed", "basis", "part"]
    both = fresh.merge(stored("bridge-entries"), on=keys, validate="one_to_one", suffixes=("", "_stored"))
    assert len(both) == len(fresh) == 3
    for column in ("rank_first", "rank_size", "ratio"):  # another processor may sample other entries
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], atol=0.02, err_msg=column)
    np.testing.assert_allclose(both["harmless"], both["harmless_stored"], atol=1)


@pytest.mark.parametrize("family", ["flip-flop", "sine"])
def test_blocks_is_what_its_script_computes(family):
    seed = int(np.random.default_rng(14).choice(ts.REFERENCE_SEEDS))
    fresh = bridge.blocks(family, seed, ["Schur"])
    keys = ["family", "seed", "basis", "part", "dose"]
    both = fresh.merge(stored("bridge-blocks"), on=keys, validate="one_to_one", suffixes=("", "_stored"))
    assert len(both) == len(fresh) > 0
    for column in ("mass", "first", "compounded", "change", "delta_fvu"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], rtol=1e-3, atol=1e-7, err_msg=column)
    assert (both["effect"] == both["effect_stored"]).all()


def test_a_fifth_of_the_entries_is_kept_and_it_is_the_largest():
    values = np.random.default_rng(15).normal(size=(64, 64))
    removed = bridge.least(values)
    assert (~removed).sum() == round(bridge.KEPT * values.size)
    assert values[removed].max() < values[~removed].min()
