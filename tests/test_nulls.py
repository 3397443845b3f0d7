"""Size-matched nulls against plain twins, planted truth, equal networks, p-values and verdicts."""

import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd
import planted
import pytest
import scipy.stats
import torch

import tasksym as ts
from tasksym import nulls
from tasksym.nulls import equal_dimension, equal_mass

CROSSED = ["flip-flop", "sine", "context-integration"]


@pytest.fixture(scope="module")
def solutions():
    return ts.reference("flip-flop").of([100])


@pytest.fixture(scope="module")
def sectors(solutions):
    return ts.ordered_schur(solutions.weights.W_hh[0]).sectors()


@pytest.mark.parametrize("coupling", ts.COUPLINGS)
def test_equal_mass_removes_entries_of_n_one_at_most_in_part(sectors, coupling):
    matrices, which = equal_mass(sectors, coupling, 20, np.random.default_rng(0))
    assert which.tolist() == list(range(20))
    places = []
    for matrix in matrices:
        removed = sectors.schur.Q.T @ (sectors.schur.W - matrix) @ sectors.schur.Q
        assert np.linalg.norm(removed) == pytest.approx(sectors.mass[coupling], rel=1e-10)
        touched = np.abs(removed) > 1e-10
        share = removed[touched] / sectors.coupling[touched]  # fails if an entry of B were touched
        assert ((share > 0) & (share < 1 + 1e-6)).all()
        assert (share < 1 - 1e-6).sum() <= 1
        places.append(frozenset(zip(*np.nonzero(touched), strict=True)))
    assert len(set(places)) == 20


def test_equal_mass_is_its_definition(sectors):
    """A loop that takes one entry after the other until the mass is reached."""
    matrix = next(equal_mass(sectors, "CR", 1, np.random.default_rng(3))[0])
    rows, columns = nulls._entries(sectors)
    T, left = sectors.schur.T.copy(), sectors.mass["CR"] ** 2
    for entry in np.random.default_rng(3).permutation(len(rows)):
        i, j = rows[entry], columns[entry]
        if T[i, j] ** 2 <= left:
            left -= T[i, j] ** 2
            T[i, j] = 0
        else:
            T[i, j] -= np.sign(T[i, j]) * np.sqrt(left)
            break
    np.testing.assert_allclose(matrix, sectors.schur.Q @ T @ sectors.schur.Q.T, atol=1e-12)


def test_every_entry_of_n_can_be_drawn(sectors):
    rows, columns = nulls._entries(sectors)
    places = np.zeros_like(sectors.coupling)
    np.add.at(places, (rows, columns), 1)
    assert ((places == 1) == (sectors.coupling != 0)).all() and places.max() == 1


def test_equal_mass_of_all_that_is_there_removes_all(sectors):
    for matrix in equal_mass(sectors, "RR+CR+CC", 3, np.random.default_rng(0))[0]:
        np.testing.assert_allclose(matrix, sectors.ablate("RR+CR+CC"), atol=1e-12)


def test_equal_dimension_cuts_what_flows_into_an_invariant_subspace(sectors):
    """W̃ = W − P W (I − P) with P the projector on the subspace, found here from W and W̃ alone."""
    matrices, which = equal_dimension(sectors, "CR", 40, np.random.default_rng(0))
    matrices = list(matrices)
    assert set(which) == set(range(len(matrices)))
    W = sectors.schur.W
    for matrix in matrices:
        left, values, _ = np.linalg.svd(W - matrix)
        P = left[:, : sectors.rank] @ left[:, : sectors.rank].T  # what is cut flows into the subspace: its range
        assert (values[sectors.rank :] < 1e-10).all()
        np.testing.assert_allclose(W @ P, P @ W @ P, atol=1e-8)  # invariant
        np.testing.assert_allclose(matrix, W - P @ W @ (np.eye(64) - P), atol=1e-8)


def test_equal_dimension_never_splits_a_pair(sectors):
    sizes = [size for _, size in sectors.schur.blocks]
    rng = np.random.default_rng(0)
    for rank in (1, 2, 3, 10, 63, 64):
        for _ in range(50):
            blocks = nulls._blocks_of(sizes, rank, rng)
            assert sum(sizes[block] for block in blocks) == rank and list(blocks) == sorted(set(blocks))


def test_equal_dimension_contains_the_leading_subspace_itself():
    """There are few subspaces of one dimension; the draws that are the ablation itself tie with it."""
    one = ts.reference("context-integration").of([100])
    trials = one.recipe.evaluation_trials(32)
    table = ts.size_matched(one, ["equal dimension"], trials=trials, draws=200, progress=False)
    drawn = ts.null_distribution(one, 0, "CR", "equal dimension", trials=trials, draws=200)["delta_fvu"]
    observed = table.loc[table["couplings"] == "CR", "delta_fvu"].item()
    assert len(np.unique(drawn)) < 13
    assert np.isclose(drawn, observed, rtol=1e-9).any()


@pytest.mark.parametrize(
    ("observed", "drawn", "p"),
    [
        (5, range(9), 1.0),
        (9, range(9), 2 * 1 / 10),
        (-1, range(9), 2 * 1 / 10),
        (7.5, range(9), 2 * 2 / 10),
        (8, range(9), 2 * 2 / 10),  # a tie counts against
        (0.3, [0.3 * (1 + 1e-12)] * 9, 1.0),  # rounding is a tie
    ],
)
def test_p_value_by_hand(observed, drawn, p):
    assert ts.p_value(observed, list(drawn)) == pytest.approx(p)


def test_p_values_of_draws_from_the_null_are_uniform():
    rng = np.random.default_rng(0)
    p = [ts.p_value(row[0], row[1:]) for row in rng.exponential(size=(2000, 200))]
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.01
    assert 70 <= sum(np.array(p) <= 0.05) <= 130


def test_size_matched_is_made_of_its_parts(solutions):
    trials = solutions.recipe.evaluation_trials(32)
    table = ts.size_matched(solutions, trials=trials, draws=30, rng=5, progress=False)
    profile = ts.ablation_profile(solutions, trials).set_index("couplings")
    assert len(table) == 6
    for row in table.itertuples():
        place = ts.COUPLINGS.index(row.couplings) + 1
        stream = np.random.default_rng((5, 100, place))
        drawn = ts.null_distribution(solutions, 0, row.couplings, row.null, trials=trials, draws=30, rng=stream)
        assert row.mass == pytest.approx(profile.loc[row.couplings, "mass"])
        assert row.delta_fvu == pytest.approx(profile.loc[row.couplings, "delta_fvu"], abs=1e-12)
        assert row.delta_score == profile.loc[row.couplings, "score"] - profile.loc["", "score"]
        costs = drawn["delta_fvu"]
        assert row.median == pytest.approx(np.median(costs), abs=1e-12)
        assert row.p == ts.p_value(row.delta_fvu, costs)
        assert (
            (costs < row.delta_fvu).mean() - 1e-9
            <= row.percentile
            <= (costs <= row.delta_fvu * (1 + 1e-9)).mean() + 1e-9
        )
        assert row.harmless == (drawn["effect"] == "harmless").mean()
        assert row.destructive == (drawn["effect"] == "destructive").mean()


def test_absent_couplings_are_not_tested():
    cayley = ts.reference("copy-cayley").of([100])
    table = ts.verdicts(ts.size_matched(cayley, draws=1000, trials=cayley.recipe.evaluation_trials(8), progress=False))
    assert set(table["effect"]) == {"absent"} and set(table["relative"]) == {""}
    assert (
        table[["low", "median", "high", "harmless", "destructive", "percentile", "p", "p_adjusted"]]
        .isna()
        .all(axis=None)
    )


@pytest.mark.parametrize(
    ("fvu", "score", "there", "word"),
    [
        (0.004, 1.0, True, "harmless"),
        (0.0149, 0.9901, True, "harmless"),  # .01 above .005, score within .01
        (0.0151, 1.0, True, "degrading"),
        (0.01, 0.98, True, "degrading"),
        (0.01, 0.94, True, "destructive"),
        (0.51, 1.0, True, "destructive"),
        (0.005, 1.0, False, "absent"),
    ],
)
def test_effect_by_hand(fvu, score, there, word):
    assert ts.effect(fvu, score, 0.005, 1.0, there) == word


def test_harmless_allows_a_poor_network_twice_its_own_fvu():
    assert ts.effect([0.79, 0.81], 1.0, 0.4, 1.0).tolist() == ["harmless", "destructive"]


def test_verdicts_correct_each_null_over_the_whole_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "null": np.repeat(["equal mass", "equal dimension"], 10),
            "p": np.r_[rng.uniform(0, 0.04, 9), np.nan, rng.uniform(0, 1, 10)],
            "percentile": rng.uniform(size=20),
        }
    ).assign(fvu=0.1, delta_fvu=0.1, score=1.0, delta_score=0.0)
    judged = ts.verdicts(table)
    for null, rows in judged.groupby("null"):
        p = rows["p"].dropna()
        adjusted = np.minimum.accumulate((np.sort(p) * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1]
        np.testing.assert_allclose(np.sort(rows["p_adjusted"].dropna()), np.minimum(adjusted, 1), err_msg=null)
    far, there = judged["p_adjusted"] <= 0.05, judged["p"].notna()
    assert (far == judged["relative"].isin(["below chance", "above chance"])).all()
    assert (judged.loc[far, "relative"] == "below chance").equals(judged.loc[far, "percentile"] < 0.5)
    assert (judged["relative"] == "").equals(~there)


@pytest.mark.parametrize(
    ("kind", "reading"), [("inert", "inert"), ("output-null", "output-null"), ("redundant", "seen")]
)
def test_planted_truth_is_named(kind, reading):
    """T_CC is large and can go; C→R is small and must stay; RR has no entries."""
    network = planted.solutions(kind)
    table = ts.verdicts(ts.size_matched(network, ["equal mass"], draws=199, progress=False)).set_index("couplings")
    assert table["effect"].to_dict() == {"RR": "absent", "CR": "destructive", "CC": "harmless"}
    assert table["relative"].to_dict() == {"RR": "", "CR": "above chance", "CC": "below chance"}
    assert table.loc["CC", "mass"] > 50 * table.loc["CR", "mass"]
    readings = ts.readout_confound(network).set_index("couplings")["reading"]
    assert readings.to_dict() == {"CR": "seen", "CC": reading}


def test_planted_truth_is_true():
    """What the weights prove: to rounding, an inert T_CC moves no state, and an output-null one no output."""
    inert, null, redundant = (ts.readout_confound(planted.solutions(kind)).loc[1] for kind in planted.KINDS)
    assert inert["states"] < 1e-12 and inert["outputs"] < 1e-12
    assert null["states"] > 0.5 and null["outputs"] < 1e-12 and null["share"] < 1e-12
    assert 0.01 < redundant["outputs"] < 0.1 and redundant["share"] > 0.9


@pytest.mark.parametrize("family", CROSSED)
def test_networks_of_equal_function_get_equal_verdicts(family):
    """A signed permutation of the hidden units is the same network: the same words and, under one seed, the same p."""
    one, rng = ts.reference(family).of([101]), np.random.default_rng(1)
    P = torch.tensor(np.diag(rng.choice([-1.0, 1.0], size=64))[rng.permutation(64)], dtype=torch.float32)
    weights = ts.TanhRNN(P @ one.weights.W_xh, P @ one.weights.W_hh @ P.T, one.weights.W_hy @ P.T)
    trials = one.recipe.evaluation_trials(32)
    tables = [
        ts.verdicts(ts.size_matched(each, trials=trials, draws=60, rng=2, progress=False))
        for each in (one, replace(one, weights=weights))
    ]
    exact = ["couplings", "null", "effect", "relative", "p", "p_adjusted", "percentile", "score"]
    pd.testing.assert_frame_equal(*(table[exact] for table in tables), check_exact=True)
    pd.testing.assert_frame_equal(*tables, rtol=1e-8)
    other = ts.size_matched(one, trials=trials, draws=60, rng=3, progress=False)
    assert not np.allclose(other["median"].dropna(), tables[0]["median"].dropna(), rtol=1e-6)


MANY = """
import resource
import torch
import tasksym as ts
torch.set_num_threads(1)
one = ts.reference("flip-flop").of([100])
trials = one.recipe.evaluation_trials(32)
ts.null_distribution(one, 0, "CC", draws=8, trials=trials)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
drawn = ts.null_distribution(one, 0, "CC", draws=400, trials=trials)
print(len(drawn), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the largest memory differs")
def test_many_draws_need_the_memory_of_eight():
    """Four hundred: their matrices alone would take 13 MB, their outputs 18."""
    printed = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True).stdout.split()
    assert printed[0] == "400" and int(printed[1]) < 5_000, "kilobytes"


def test_draws_are_made_one_at_a_time(sectors):
    matrices, _ = equal_mass(sectors, "CC", 10**6, np.random.default_rng(0))
    assert len(list(islice(matrices, 2))) == 2


def test_a_bar_counts_the_draws(solutions, capsys, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    trials = solutions.recipe.evaluation_trials(4)
    ts.size_matched(solutions, trials=trials, draws=10)
    assert re.search(r"/60 \[", capsys.readouterr().err), "two nulls of three couplings"
    ts.size_matched(solutions, trials=trials, draws=10, progress=False)
    assert capsys.readouterr().err == ""
