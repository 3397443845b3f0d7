"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import calibration
import coupling_map
import encoders
import neurogym_network
import nulls
import numpy as np
import off_distribution
import orders
import pandas as pd
import pytest
import repairs
import scipy.stats
import threshold
import torch
from safetensors.torch import load_file

import tasksym as ts
from tasksym.readout import FIT_SEED

STUDIES = _table.FOLDER
SCRIPTS = [path.stem for path in sorted(STUDIES.glob("[a-z]*.py"))]
NETWORKS = {"neurogym_network", "classifiers", "digits_layer"}  # scripts that ship trained networks instead of a table


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(STUDIES / "orders.csv")


@pytest.fixture(scope="module")
def repaired():
    return pd.read_csv(STUDIES / "repairs.csv", keep_default_na=False)


@pytest.fixture(scope="module")
def refitted():
    return pd.read_csv(STUDIES / "encoders.csv", keep_default_na=False)


@pytest.mark.parametrize("study", SCRIPTS)
def test_a_study_ships_something_small_and_where_it_is_from(study):
    shipped = STUDIES / f"{study}.{'safetensors' if study in NETWORKS else 'csv'}"
    assert shipped.stat().st_size < 300_000
    provenance = json.loads((STUDIES / f"{study}.json").read_text(encoding="utf-8"))
    assert provenance.keys() >= {"seeds", "versions", "instruction_set"}
    if "networks" in provenance:  # of the reference solutions
        assert provenance.keys() >= {"recipes", "trials"}
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
def chance():
    return pd.read_csv(STUDIES / "nulls.csv")


def test_nulls_has_a_row_for_every_network_coupling_and_null(chance):
    keys = ["family", "seed", "couplings", "null"]
    assert not chance.duplicated(keys).any() and len(chance) == 5 * 16 * 3 * 2
    tested = chance["p"].notna()
    assert tested[chance["couplings"] == "CR"].sum() == 2 * 64
    assert not tested[chance["family"] == "copy-cayley"].any()
    assert chance.loc[tested, "p"].between(2 / 1001 - 1e-5, 1).all()  # what 1,000 draws can say
    assert (chance["low"] <= chance["median"]).equals(tested) and (chance["median"] <= chance["high"]).equals(tested)


@pytest.mark.filterwarnings("ignore::tasksym.SplitWarning")
def test_nulls_is_what_its_script_computes(chance):
    """All 1,000 draws of one dense copy network; the page makes those of another family."""
    seed = int(np.random.default_rng(8).choice(ts.REFERENCE_SEEDS))
    fresh = nulls.measure("copy-dense-orthogonal", seed, ["equal mass"])
    both = fresh.merge(chance, on=["family", "seed", "couplings", "null"], suffixes=("", "_stored"))
    assert len(both) == 3
    for column in ("mass", "fvu", "delta_fvu", "low", "median", "high"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], rtol=1e-4, atol=1e-8, err_msg=column)
    np.testing.assert_allclose(both["score"], both["score_stored"], atol=2.1 / nulls.TRIALS)
    for column in ("p", "percentile", "harmless", "destructive"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], atol=4.1 / nulls.DRAWS, err_msg=column)


def test_pseudo_couplings_have_uniform_p():
    pseudo = pd.read_csv(STUDIES / "calibration.csv")
    assert len(pseudo) >= 400 and not pseudo.duplicated(["family", "seed", "couplings", "pseudo"]).any()
    assert scipy.stats.kstest(pseudo["p"], "uniform").pvalue > 0.05
    low, high = scipy.stats.binom(len(pseudo), 0.05).ppf([0.005, 0.995])
    assert low <= (pseudo["p"] <= 0.05).sum() <= high


def test_calibration_is_what_its_script_computes():
    seed = int(np.random.default_rng(9).choice(ts.REFERENCE_SEEDS))
    stored = pd.read_csv(STUDIES / "calibration.csv")
    fresh = calibration.measure("context-integration", seed)
    both = fresh.merge(stored, on=["family", "seed", "couplings", "pseudo"], suffixes=("", "_stored"))
    assert len(both) == len(fresh) > 0
    np.testing.assert_allclose(both["delta_fvu"], both["delta_fvu_stored"], rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(both["p"], both["p_stored"], atol=4.1 / calibration.DRAWS)


@pytest.fixture(scope="module")
def off_task():
    return pd.read_csv(STUDIES / "off_distribution.csv").fillna({"couplings": ""})


def test_off_distribution_has_a_row_for_every_network_condition_order_and_coupling(off_task):
    keys = ["family", "condition", "seed", "order", "couplings"]
    assert list(off_task.columns) == off_distribution.COLUMNS
    assert not off_task.duplicated(keys).any()
    assert off_task["deviation"].notna().all()
    assert (off_task["spread"].notna() == (off_task["couplings"] == "")).all()
    for family in off_distribution.FAMILIES:
        rows = off_task[off_task["family"] == family]
        names = list(off_distribution.conditions(family, 1))
        assert list(dict.fromkeys(rows["condition"])) == names
        counts = rows.groupby(["couplings", "order"]).size()
        every = 16 * len(names)
        assert counts["", 0] == counts["CR", 0] == every and len(counts["CR"]) == 1
        for order in off_distribution.ORDERS:
            assert counts["CC", order] == every and counts.get(("RR", order), 0) % len(names) == 0
        unanswered = set(rows.loc[rows["fvu"].isna(), "condition"])
        assert unanswered == {
            n for n, t in off_distribution.conditions(family, 8).items() if not off_distribution.answered(t)
        }


def test_off_distribution_asks_for_what_it_says():
    copy, sine, context = (
        off_distribution.conditions(name, 8) for name in ("copy-dense-orthogonal", "sine", "context-integration")
    )
    for trials in (copy["constant"], copy["two symbols"], copy["delay"], copy["length 5"]):
        shown = trials.inputs[: trials.mask.sum()]
        np.testing.assert_array_equal(trials.targets[trials.mask], shown)
        assert not trials.inputs[len(shown) :].any()
    assert (copy["constant"].inputs[:9] == copy["constant"].inputs[0]).all()
    assert copy["two symbols"].inputs.any(axis=0).sum(axis=1).max() == 2
    task = ts.RECIPES["sine"].task
    for name in ("task", "below", "far below", "above", "far above"):
        frequency = task.low + (task.high - task.low) * (sine[name].inputs[..., 0] + 1) / 2
        wave = task.amplitude * np.sin(2 * np.pi * frequency * np.arange(1, 101)[:, None])
        np.testing.assert_allclose(sine[name].targets[..., 0], wave, atol=1e-4)
    for name in ("task", "120 steps", "more noise", "large means"):
        streams, cue = np.split(context[name].inputs, 2, axis=-1)
        named = (streams * cue).sum(axis=-1)
        np.testing.assert_allclose(context[name].targets[..., 0], named.cumsum(axis=0) / np.sqrt(60), atol=1e-5)


@pytest.mark.parametrize("family", off_distribution.FAMILIES)
def test_off_distribution_is_what_its_script_computes(off_task, family):
    """One network, two conditions and two orders a family; the page computes others."""
    rng = np.random.default_rng(8)
    seed, order = int(rng.choice(ts.REFERENCE_SEEDS)), int(rng.choice(off_distribution.ORDERS[1:]))
    only = rng.choice(list(off_distribution.conditions(family, 1))[1:], 2, replace=False)
    fresh = off_distribution.measure(family, seed, only, [0, order])
    keys = ["family", "condition", "seed", "order", "couplings"]
    both = fresh.merge(off_task, on=keys, validate="one_to_one", suffixes=("", "_stored"))
    assert len(both) == len(fresh)
    for column in ("fvu", "deviation", "spread"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(both["score"], both["score_stored"], atol=2.1 / off_distribution.TRIALS)


@pytest.fixture(scope="module")
def ranks():
    return pd.read_csv(STUDIES / "threshold.csv")


@pytest.fixture(scope="module")
def pushes():
    return pd.read_csv(STUDIES / "threshold-pushes.csv")


def test_threshold_has_one_row_for_every_network_and_alpha(ranks):
    networks = {(family, seed) for family in threshold.FAMILIES for seed in ts.REFERENCE_SEEDS}
    for alpha in np.linspace(threshold.LOW, threshold.HIGH, 161).round(3):
        rows = ranks[(ranks["low"] < alpha) & (alpha <= ranks["high"])]
        assert len(rows) == len(networks)
        assert set(zip(rows["family"], rows["seed"], strict=True)) == networks
    assert not ranks.duplicated(["family", "seed", "rank"]).any()
    for name in ts.COUPLINGS:
        assert (ranks[f"delta_fvu_{name}"].notna() == ranks[f"score_{name}"].notna()).all()
        assert ranks.loc[ranks[f"mass_{name}"] > 1e-3, f"delta_fvu_{name}"].notna().all()


def test_threshold_only_moves_mass_between_couplings(ranks):
    squares = (ranks[[f"mass_{name}" for name in ts.COUPLINGS]] ** 2).sum(axis=1)
    total = squares.groupby([ranks["family"], ranks["seed"]])
    assert (total.max() / total.min() < 1.001).all()
    for _, network in ranks.sort_values("rank").groupby(["family", "seed"]):
        assert (network["mass_RR"].diff().dropna() >= 0).all()
        assert (network["mass_CC"].diff().dropna() <= 0).all()


def test_no_push_below_the_margin_changes_a_rank(pushes):
    assert (STUDIES / "threshold-pushes.csv").stat().st_size < 300_000
    assert not pushes.duplicated(["family", "seed", "alpha", "push"]).any()
    sizes = len(threshold.PUSHES) * (len(threshold.ALPHAS) + len(threshold.JUMPS))
    assert len(pushes) == 64 * sizes
    safe = pushes["push"] < pushes["margin"]
    assert 0.2 < safe.mean() < 0.9
    assert not pushes.loc[safe, "other"].any() and not pushes.loc[safe, "aimed"].any()


@pytest.mark.parametrize("family", threshold.FAMILIES)
def test_threshold_is_what_its_script_computes(ranks, family):
    """One network a family and three of its ranks; the page computes others."""
    rng = np.random.default_rng(11)
    seed = int(rng.choice(ts.REFERENCE_SEEDS))
    stored = ranks[(ranks["family"] == family) & (ranks["seed"] == seed)]
    chosen = rng.choice(stored["rank"], 3, replace=False).tolist()
    fresh = threshold.measure(family, seed, chosen).set_index("rank").sort_index()
    stored = stored[stored["rank"].isin(chosen)].set_index("rank").sort_index()
    np.testing.assert_array_equal(fresh.index, stored.index)
    for column in fresh.columns.drop(["family", "seed"]):
        atol = 2.1 / threshold.TRIALS if column.startswith("score") else 1e-8
        np.testing.assert_allclose(fresh[column], stored[column], rtol=1e-4, atol=atol)


def test_threshold_pushes_are_what_their_script_computes(pushes):
    fresh = threshold.pushed("flip-flop", 107, pushes=[1e-3])
    stored = pushes[(pushes["family"] == "flip-flop") & (pushes["seed"] == 107) & (pushes["push"] == 1e-3)]
    for column in ("rank", "aimed", "draws", "other", "traded", "words_same", "words_other"):
        np.testing.assert_array_equal(fresh[column], stored[column])
    for column in ("alpha", "margin", "CR_same", "rest_same", "CR_traded", "rest_traded", "CR_other", "rest_other"):
        np.testing.assert_allclose(fresh[column], stored[column], rtol=1e-3, atol=1e-8)


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


def test_repairs_has_a_row_for_every_network_coupling_and_kind(repaired, table):
    assert not repaired.duplicated(["family", "seed", "couplings", "repair"]).any()
    assert repaired[["fvu", "score"]].map(np.isfinite).all(axis=None)
    there = table.loc[table["couplings"] != "RC", ["family", "seed", "couplings"]].drop_duplicates()
    expected = {(*network, kind) for network in there.itertuples(index=False) for kind in ts.REPAIRS}
    expected |= {(f, seed, "", kind) for f in ts.RECIPES for seed in ts.REFERENCE_SEEDS for kind in ts.REPAIRS}
    assert set(repaired[["family", "seed", "couplings", "repair"]].itertuples(index=False, name=None)) == expected


def test_repairs_is_what_its_script_computes(repaired):
    """Two networks without an encoder, and one encoder; the page computes others."""
    rng = np.random.default_rng(8)
    for family in rng.choice(encoders.FAMILIES, 2, replace=False):
        fresh = repairs.measure(family, int(rng.choice(ts.REFERENCE_SEEDS)), ["none", "decoder", "norm"])
        keys = ["family", "seed", "couplings", "repair"]
        both = fresh.merge(repaired, on=keys, validate="one_to_one", suffixes=("", "_stored"))
        assert len(both) == len(fresh)
        np.testing.assert_allclose(both["fvu"], both["fvu_stored"], rtol=1e-3, atol=1e-8)
        np.testing.assert_allclose(both["score"], both["score_stored"], atol=2.1 / repairs.TRIALS)


def test_repairs_has_the_encoder_that_its_script_finds(repaired):
    """By a band: the search is long, and roundings add up along it."""
    solutions = ts.reference("context-integration").of([107])
    ablated = ts.ordered_schur(solutions.weights.W_hh[0]).sectors().ablate("CC")
    fit = solutions.recipe.task.sample(repairs.TRIALS, rng=FIT_SEED)
    found = ts.refit_encoder(solutions.weights.variants(0, ablated[None]), fit)
    trials = solutions.recipe.evaluation_trials(repairs.TRIALS)
    stored = repaired.set_index(["family", "seed", "couplings", "repair"])["fvu"]
    before, after = (stored["context-integration", 107, "CC", kind] for kind in ("none", "encoder"))
    (fresh,) = ts.fvu(found.outputs(trials.inputs).numpy(), trials)
    assert after < before / 100
    assert 0.5 < fresh / after < 2


def test_encoders_has_a_row_for_every_network_and_case(refitted):
    assert list(refitted.columns) == encoders.COLUMNS
    expected = [(f, s, c) for f in encoders.FAMILIES for s in ts.REFERENCE_SEEDS for c in encoders.CASES]
    assert list(refitted[["family", "seed", "case"]].itertuples(index=False, name=None)) == expected
    assert refitted[encoders.COLUMNS[3:]].map(np.isfinite).all(axis=None)
    assert refitted[["score", "share_before", "share"]].map(lambda share: 0 <= share <= 1).all(axis=None)


def test_encoders_is_what_its_script_computes(refitted):
    """By digits where nothing was searched for, and by a band where it was."""
    seed = int(np.random.default_rng(9).choice(ts.REFERENCE_SEEDS))
    fresh = encoders.measure("copy-dense-orthogonal", seed, ["RR+CR+CC", encoders.UNTRAINED])
    both = fresh.merge(refitted, on=["family", "seed", "case"], validate="one_to_one", suffixes=("", "_stored"))
    assert len(both) == len(fresh)
    for column in ("fvu", "share_before"):
        np.testing.assert_allclose(both[column], both[f"{column}_stored"], rtol=1e-4)
    for column in ("refit", "moved"):
        assert (both[column] / both[f"{column}_stored"]).between(0.5, 2).all()


def test_the_two_studies_of_encoders_agree(repaired, refitted):
    keys = ["family", "seed", "couplings"]
    one = repaired[repaired["repair"] == "encoder"].set_index(keys)["fvu"]
    other = refitted[refitted["case"].isin(["", "CR"])].rename(columns={"case": "couplings"}).set_index(keys)["refit"]
    np.testing.assert_allclose(other, one.reindex(other.index), rtol=1e-4)


def words(found):
    return {coupling: str(verdict) for coupling, verdict in found.verdicts.items()}


@pytest.fixture(scope="module")
def stored():
    return load_file(neurogym_network.FILE)


def test_a_network_of_another_library_comes_with_where_it_is_from():
    file = neurogym_network.FILE
    provenance = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    assert file.stat().st_size + file.with_suffix(".json").stat().st_size < 100_000
    assert provenance["task"] == neurogym_network.TASK
    assert provenance["seeds"] == {"training": neurogym_network.SEED, "evaluation": neurogym_network.EVALUATION_SEED}
    assert provenance["versions"].keys() == {"neurogym", "numpy", "torch"}


def test_a_network_of_another_library_is_diagnosed_in_five_lines(stored):
    weights = {key: value for key, value in stored.items() if "." in key}
    inputs, choice = stored["inputs"], stored["choice"].numpy()

    def accuracy(outputs, _):
        return (outputs[-1].argmax(axis=-1) == choice).mean()

    found = ts.diagnose(weights, inputs, score=accuracy, draws=99, progress=False)
    assert found.score > 0.85
    assert words(found)["CR"] == "destructive, above chance" and words(found)["CC"].endswith("below chance")
    assert found.removable == ""


@pytest.mark.filterwarnings("ignore")  # Gymnasium has much to say about NeuroGym
def test_a_network_of_another_library_does_the_task_as_that_library_draws_it(stored):
    pytest.importorskip("neurogym", reason="NeuroGym is not installed, see pyproject.toml: peers")
    inputs, actions = neurogym_network.sample(neurogym_network.TRIALS, neurogym_network.EVALUATION_SEED)
    np.testing.assert_allclose(inputs, stored["inputs"], atol=1e-6)
    np.testing.assert_array_equal(actions[-1], stored["choice"])
    net = neurogym_network.Net(3, 3)
    net.load_state_dict({key: value for key, value in stored.items() if "." in key})
    inputs, actions = neurogym_network.sample(256, seed=2)
    assert (net(inputs)[-1].argmax(dim=-1) == actions[-1]).double().mean() > 0.85
    choice = actions[-1].numpy()
    found = ts.diagnose(net, inputs, score=lambda y, _: (y[-1].argmax(-1) == choice).mean(), draws=99, progress=False)
    assert words(found)["CR"] == "destructive, above chance" and found.removable == ""


@pytest.mark.filterwarnings("ignore")
def test_a_network_of_another_library_learns_as_it_did():
    pytest.importorskip("neurogym", reason="NeuroGym is not installed, see pyproject.toml: peers")
    _, loss = neurogym_network.train(steps=30)
    assert loss < 0.9 * np.log(3)
