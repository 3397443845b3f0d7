"""The ablation profile against a plain twin, its invariances, and what the reference solutions must show."""

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import torch

import tasksym as ts


@pytest.fixture(scope="module")
def solutions():
    return ts.reference("flip-flop")


@pytest.fixture(scope="module")
def profile(solutions):
    return ts.ablation_profile(solutions)


def first(solutions, networks=2):
    """The first few networks only, where two will do."""
    return solutions.of(solutions.seeds[:networks])


def test_the_table_is_tidy(profile):
    columns = ["seed", "couplings", "rank", "gap", "mass", "fvu", "delta_fvu", "sensitivity", "score"]
    assert list(profile.columns) == columns
    assert len(profile) == 16 * 8
    assert tuple(profile["couplings"][:8]) == ts.SETS
    whole = profile[profile["couplings"] == ""]
    assert (whole["mass"] == 0).all() and (whole["delta_fvu"] == 0).all() and whole["sensitivity"].isna().all()


def test_the_profile_is_its_definition(solutions):
    """Built from LAPACK's own bipartition and a plain rollout, for the two sets that are canonical: none and CR."""
    two = first(solutions)
    trials = solutions.recipe.evaluation_trials(32)
    table = ts.ablation_profile(two, trials)
    for network, seed in enumerate(two.seeds):
        W_xh, W, W_hy = (getattr(two.weights, name)[network].double().numpy() for name in ("W_xh", "W_hh", "W_hy"))
        _, Z, rank = scipy.linalg.schur(W, output="real", sort=lambda re, im: np.hypot(re, im) >= 0.9)
        P = Z[:, :rank] @ Z[:, :rank].T
        for couplings, matrix in (("", W), ("CR", W - P @ W @ (np.eye(64) - P))):
            h, outputs = np.zeros((32, 64)), []
            for x in trials.inputs:
                h = np.tanh(x @ W_xh.T + h @ matrix.T)
                outputs.append(h @ W_hy.T)
            row = table[(table["seed"] == seed) & (table["couplings"] == couplings)].iloc[0]
            assert row["rank"] == rank
            assert row["fvu"] == pytest.approx(ts.fvu(np.array(outputs), trials), abs=1e-10)
            assert row["mass"] == pytest.approx(np.linalg.norm(W - matrix), abs=1e-10)


MANY = """
import resource, sys
import numpy as np, torch
import tasksym as ts
from tasksym.ablation import evaluate
from tasksym.training import Solutions
torch.set_num_threads(1)
recipe = ts.RECIPES["flip-flop"]
start = Solutions(recipe, (0,), ts.starting_networks(recipe, [0]), torch.zeros(1, 1))
W = start.weights.W_hh[0].double().numpy()
trials = recipe.evaluation_trials(256)
evaluate(start, 0, [W] * 8, trials)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
values, _ = evaluate(start, 0, (W * (1 - draw / 300) for draw in range(300)), trials)
print(len(values), values[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the largest memory differs")
def test_memory_does_not_grow_with_the_ablations_asked_for():
    """Three hundred ablations in the memory of eight: their outputs would take 110 MB, their states 2.4 GB."""
    printed = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True).stdout.split()
    assert printed[0] == "300" and float(printed[1]) > 0
    assert int(printed[2]) < 20_000, "kilobytes"


def delta_fvu(solutions, sectors, trials):
    sets = ("", *ts.COUPLINGS)
    ablated = np.stack([sectors.ablate(couplings) for couplings in sets])
    values = ts.fvu(solutions.weights.variants(0, ablated).outputs(trials.inputs), trials)
    return values[1:] - values[0]


def test_cr_does_not_depend_on_the_order_inside_a_sector(solutions):
    """Over twenty admissible orders; CC and RR do, which is why a page must give their range."""
    trials = solutions.recipe.evaluation_trials(128)
    schur, rng = ts.ordered_schur(solutions.weights.W_hh[0]), np.random.default_rng(0)
    effects = np.array(
        [delta_fvu(solutions, schur.reordered(schur.admissible_order(rng)).sectors(), trials) for _ in range(20)]
    )
    spread = dict(zip(ts.COUPLINGS, np.ptp(effects, axis=0), strict=True))
    assert spread["CR"] < 1e-8
    assert spread["CC"] > 1e-3 and spread["RR"] > 1e-5


def test_signed_permutations_of_the_hidden_units_change_nothing(solutions):
    two, rng = first(solutions), np.random.default_rng(0)
    P = torch.tensor(np.diag(rng.choice([-1.0, 1.0], size=64))[rng.permutation(64)], dtype=torch.float32)
    weights = ts.TanhRNN(P @ two.weights.W_xh, P @ two.weights.W_hh @ P.T, two.weights.W_hy @ P.T)
    trials = solutions.recipe.evaluation_trials(64)
    pd.testing.assert_frame_equal(
        ts.ablation_profile(dataclasses.replace(two, weights=weights), trials),
        ts.ablation_profile(two, trials),
        atol=1e-9,
        rtol=1e-7,
    )


def test_sensitivity_is_undefined_where_the_mass_is_rounding(solutions):
    """A normal matrix has no couplings: what float32 leaves of them is no mass."""
    Q = torch.tensor(np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0], dtype=torch.float32)
    one = first(solutions, 1)
    orthogonal = dataclasses.replace(one.weights, W_hh=Q[None])
    table = ts.ablation_profile(dataclasses.replace(one, weights=orthogonal), solutions.recipe.evaluation_trials(8))
    assert (table["rank"] == 64).all() and table["gap"].isna().all()
    assert (table["mass"] < 1e-4).all() and table["sensitivity"].isna().all()
    assert table["delta_fvu"].abs().max() < 1e-3


# --- Doses


def test_doses_end_at_nothing_and_at_the_whole_ablation(solutions):
    two, trials = first(solutions), solutions.recipe.evaluation_trials(64)
    table, profile = ts.dose_response(two, (0.0, 0.5, 1.0), trials), ts.ablation_profile(two, trials)
    assert list(table.columns) == ["seed", "couplings", "dose", "mass", "fvu", "delta_fvu", "score"]
    assert len(table) == 2 * 3 * 3
    assert (table.loc[table["dose"] == 0, ["mass", "delta_fvu"]] == 0).all().all()
    whole = table[table["dose"] == 1].set_index(["seed", "couplings"])
    single = profile[profile["couplings"].isin(ts.COUPLINGS)].set_index(["seed", "couplings"])
    for column in ("mass", "fvu", "delta_fvu", "score"):
        np.testing.assert_allclose(whole[column], single.loc[whole.index, column], atol=1e-10)
    half = table[table["dose"] == 0.5].set_index(["seed", "couplings"])
    np.testing.assert_allclose(half["mass"], whole["mass"] / 2, rtol=1e-12)
    assert (half.loc[(slice(None), "CR"), "fvu"] != whole.loc[(slice(None), "CR"), "fvu"]).all()


def test_a_coupling_without_mass_has_no_doses_and_no_orders(solutions):
    Q = torch.tensor(np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0], dtype=torch.float32)
    one = first(solutions, 1)
    orthogonal = dataclasses.replace(one, weights=dataclasses.replace(one.weights, W_hh=Q[None]))
    trials = solutions.recipe.evaluation_trials(8)
    for measure in (ts.dose_response, ts.order_range):
        none, some = measure(orthogonal, (0, 1), trials), measure(one, (0, 1), trials)
        assert none.empty and (none.dtypes == some.dtypes).all()


# --- Orders


def test_order_zero_is_by_modulus_and_the_others_are_admissible(solutions):
    two, trials = first(solutions), solutions.recipe.evaluation_trials(64)
    table, profile = ts.order_range(two, (0, 1, 2), trials), ts.ablation_profile(two, trials)
    assert list(table.columns) == ["seed", "order", "couplings", "mass", "delta_fvu", "score"]
    by_modulus = table[table["order"] == 0].set_index(["seed", "couplings"])
    single = profile[profile["couplings"].isin(ts.COUPLINGS)].set_index(["seed", "couplings"])
    for column in ("mass", "delta_fvu", "score"):
        np.testing.assert_allclose(by_modulus[column], single.loc[by_modulus.index, column], atol=1e-10)
    effect = table.pivot(index=["seed", "couplings"], columns="order", values="delta_fvu")
    assert (np.ptp(effect.loc[(slice(None), "CR"), :], axis=1) < 1e-8).all()
    assert (np.ptp(effect.loc[(slice(None), "CC"), :], axis=1) > 1e-4).all()


def test_an_order_does_not_depend_on_the_others_asked_for(solutions):
    one, trials = first(solutions, 1), solutions.recipe.evaluation_trials(16)
    together, alone = ts.order_range(one, (1, 2, 3), trials), ts.order_range(one, (3,), trials)
    pd.testing.assert_frame_equal(together[together["order"] == 3].reset_index(drop=True), alone)


# --- The mirrored form


def test_the_mirrored_form_puts_the_complement_first(solutions):
    """Its RC is canonical as CR is: W̃ = W − P W (I − P) with P the projector on the invariant subspace of C."""
    W = solutions.weights.W_hh[0].double().numpy()
    schur = ts.ordered_schur(W)
    plain, mirrored = schur.sectors(), schur.sectors(mirrored=True)
    assert mirrored.couplings == ("RR", "RC", "CC")
    assert mirrored.rank == plain.rank == 3
    assert mirrored.gap == pytest.approx(plain.gap) and mirrored.margin == plain.margin
    assert np.abs(np.linalg.eigvals(mirrored.basis("R").T @ W @ mirrored.basis("R"))).min() > 0.9
    _, Z, dimension = scipy.linalg.schur(W, output="real", sort=lambda re, im: np.hypot(re, im) < 0.9)
    P = Z[:, :dimension] @ Z[:, :dimension].T
    np.testing.assert_allclose(mirrored.ablate("RC"), W - P @ W @ (np.eye(64) - P), atol=1e-10)
    np.testing.assert_allclose(
        np.sort(np.abs(np.linalg.eigvals(mirrored.ablate("RC")))), np.sort(np.abs(np.linalg.eigvals(W))), atol=1e-8
    )
    assert mirrored.removed_mass("RC") == pytest.approx(np.linalg.norm(W - mirrored.ablate("RC")))
    with pytest.raises(ValueError, match="couplings are RR, RC and CC"):
        mirrored.ablate("CR")
