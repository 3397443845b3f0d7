"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import encoders
import numpy as np
import orders
import pandas as pd
import pytest
import repairs

import tasksym as ts
from tasksym.readout import FIT_SEED

STUDIES = _table.FOLDER
SCRIPTS = [path.stem for path in sorted(STUDIES.glob("[a-z]*.py"))]


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
