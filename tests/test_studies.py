"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import calibration
import nulls
import numpy as np
import off_distribution
import orders
import pandas as pd
import pytest
import scipy.stats
import threshold

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
