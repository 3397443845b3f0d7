"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import numpy as np
import orders
import pandas as pd
import pytest
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
