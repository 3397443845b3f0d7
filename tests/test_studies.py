"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import coupling_map
import numpy as np
import orders
import pandas as pd
import pytest
import torch

import tasksym as ts

STUDIES = _table.FOLDER
SCRIPTS = [path.stem for path in sorted(STUDIES.glob("[a-z]*.py"))]


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(STUDIES / "orders.csv")


@pytest.mark.parametrize("study", SCRIPTS)
def test_a_study_ships_a_small_table_of_the_present_networks(study):
    assert (STUDIES / f"{study}.csv").stat().st_size < 300_000
    provenance = json.loads((STUDIES / f"{study}.json").read_text(encoding="utf-8"))
    assert provenance.keys() >= {"recipes", "networks", "seeds", "trials", "versions", "instruction_set"}
    assert provenance["recipes"] == {name: repr(ts.RECIPES[name]) for name in provenance["recipes"]}
    assert provenance["networks"] == {name: _table.checksum(name) for name in provenance["recipes"]}
    assert provenance["seeds"] == list(ts.REFERENCE_SEEDS)


def test_orders_has_a_row_for_every_network_order_and_coupling(table):
    assert list(table.columns) == orders.COLUMNS
    assert not table.duplicated(["family", "seed", "order", "couplings"]).any()
    assert table.notna().all().all()
    networks = {(family, seed) for family in orders.FAMILIES for seed in ts.REFERENCE_SEEDS}
    assert set(zip(table["family"], table["seed"], strict=True)) == networks
    rows = table.groupby(["family", "couplings"]).size()
    every, once = 16 * len(orders.ORDERS), 16
    for family in orders.FAMILIES:
        assert rows[family, "CC"] == every and rows[family, "CR"] == rows[family, "RC"] == once
        assert rows.get((family, "RR"), 0) % len(orders.ORDERS) == 0
    assert rows["flip-flop", "RR"] == rows["copy-dense-orthogonal", "RR"] == every
    assert (table.loc[table["couplings"].isin(["CR", "RC"]), "order"] == 0).all()


def test_orders_kept_cr_where_it_was():
    provenance = json.loads((STUDIES / "orders.json").read_text(encoding="utf-8"))
    assert provenance["spread_of_CR"].keys() == set(orders.FAMILIES)
    assert max(provenance["spread_of_CR"].values()) < 1e-8


@pytest.mark.parametrize("family", orders.FAMILIES)
def test_orders_is_what_its_script_computes(table, family):
    """One network and two orders a family; the page computes others."""
    rng = np.random.default_rng(7)
    seed, order = int(rng.choice(ts.REFERENCE_SEEDS)), int(rng.choice(orders.ORDERS[1:]))
    fresh = orders.measure(family, seed, [0, order])
    fresh = fresh[(fresh["couplings"] != "CR") | (fresh["order"] == 0)]
    keys = ["family", "seed", "order", "couplings"]
    both = fresh.merge(table, on=keys, validate="one_to_one", suffixes=("", "_stored"))
    assert len(both) == len(fresh)
    for column in ("mass", "delta_fvu"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(both["score"], both["score_stored"], atol=2.1 / orders.TRIALS)


@pytest.fixture(scope="module")
def block_maps():
    return pd.read_csv(STUDIES / "coupling_map.csv")


def test_coupling_map_has_a_row_for_every_network_and_part(block_maps):
    assert list(block_maps.columns) == coupling_map.COLUMNS
    assert not block_maps.duplicated(["family", "seed", "order", "part"]).any()
    networks = {(family, seed, 0) for family in coupling_map.FAMILIES for seed in ts.REFERENCE_SEEDS}
    networks |= {(family, seed, 1) for family, seed in coupling_map.SECOND_ORDER}
    wanted = {"CR", "CC", "all", "light", "heavy", "fast", "slow"}
    for network, rows in block_maps.groupby(["family", "seed", "order"]):
        networks.remove(network)
        parts = rows.set_index("part")
        assert wanted <= {*parts.index} <= wanted | {"RR", "harmful"}
        sectors = parts.loc[parts.index.isin(ts.COUPLINGS)]
        for column in ("count", "total", "curvature", "harmless", "helpful", "helpful_total"):
            assert sectors[column].sum() == pytest.approx(parts.loc["all", column], rel=1e-3)
    assert not networks
    sectors = block_maps[block_maps["part"].isin(["all", *ts.COUPLINGS])]
    assert sectors[["mass", "whole", "joint", "total", "half", "error_second"]].notna().all().all()
    assert block_maps.filter(like="cut_").stack().dropna().between(0, 1).all()
    assert block_maps.filter(like="rank_").stack().dropna().between(-1, 1).all()


def test_coupling_map_leaves_cr_as_a_whole_where_it_was(block_maps):
    """The order of the blocks moves its pieces, not their sum."""
    whole = block_maps[block_maps["part"] == "CR"].set_index(["family", "seed", "order"])
    for network in coupling_map.SECOND_ORDER:
        for column in ("mass", "whole", "joint"):
            assert whole.loc[(*network, 1), column] == pytest.approx(whole.loc[(*network, 0), column], rel=2e-4)


@pytest.mark.parametrize("family", ["copy-dense-orthogonal", "context-integration"])
def test_coupling_map_is_what_its_script_computes(block_maps, family):
    """C→R of one network; the page computes others."""
    seed = int(np.random.default_rng(11).choice(ts.REFERENCE_SEEDS))
    (fresh,) = coupling_map.measure(family, seed, parts=["CR"]).to_dict("records")
    stored = block_maps.set_index(["family", "seed", "order", "part"]).loc[family, seed, 0, "CR"]
    for column in coupling_map.COLUMNS[4:]:
        step = 1.5 / coupling_map.STEPS + 0.01 if column.startswith("cut_") else 0
        if not column.endswith("_together") or column == "cut_together":
            np.testing.assert_allclose(fresh[column], stored[column], rtol=1e-3, atol=max(step, 1e-6), err_msg=column)


@pytest.mark.filterwarnings("ignore::tasksym.SplitWarning")
def test_the_pieces_of_a_map_add_up_to_its_couplings():
    for family in coupling_map.FAMILIES:
        sectors = ts.ordered_schur(ts.reference(family).weights.W_hh[3]).sectors(alpha=0.8)
        places, parts, removals = coupling_map.block_couplings(sectors)
        assert (places[:, 0] < places[:, 1]).all() and len(places) == len(removals)
        for part in ts.COUPLINGS:
            removed = sectors.schur.W - sectors.ablate(part)
            np.testing.assert_allclose(removals[parts == part].sum(axis=0), removed, atol=1e-12)


def test_predictions_of_a_map_agree_with_autograd():
    """Slope and curvature of a small removal, against derivatives of the rollout itself."""
    some = ts.reference("context-integration").of([104])
    trials = some.recipe.evaluation_trials(32)
    _, _, removals = coupling_map.block_couplings(ts.ordered_schur(some.weights.W_hh[0]).sectors())
    removals = removals[:: len(removals) // 5]
    W_hh = some.weights.W_hh[0].double()

    def outputs(matrix):
        return some.weights.variants(0, matrix[None]).rollout(trials.inputs)[1][0, torch.from_numpy(trials.mask)]

    errors = (outputs(W_hh) - torch.from_numpy(trials.targets[trials.mask])).numpy()
    variance = coupling_map.variance(trials)
    changes = [torch.autograd.functional.jvp(outputs, W_hh, torch.from_numpy(K))[1].numpy() for K in removals]
    slopes = [-2 * (errors * change).sum() / variance for change in changes]
    curvature = [(change**2).sum() / variance for change in changes]
    gradient = coupling_map.gradient(some, 0, trials)
    np.testing.assert_allclose(-coupling_map.along(gradient, removals), slopes, rtol=1e-7)
    np.testing.assert_allclose(coupling_map.curvature(some, 0, removals, trials), curvature, rtol=1e-9)
    rng = np.random.default_rng(0)
    passes = [coupling_map.noise_gradients(some, 0, trials, rng) for _ in range(20)]
    estimate = np.mean([(coupling_map.along(each, removals) ** 2).sum(axis=0) for each in passes], axis=0)
    np.testing.assert_allclose(estimate, curvature, rtol=0.3)


def test_one_by_one_is_the_greedy_choice():
    rng = np.random.default_rng(5)
    slopes, probes = rng.normal(size=8), rng.normal(size=(4, 8))
    taken = []
    for choice in coupling_map.one_by_one(slopes, probes):
        left = [k for k in range(8) if k not in taken]
        cost = {k: slopes[[*taken, k]].sum() + (probes[:, [*taken, k]].sum(axis=1) ** 2).sum() for k in left}
        assert choice == min(cost, key=cost.get)
        taken.append(choice)
