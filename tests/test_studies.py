"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import numpy as np
import orders
import pandas as pd
import pytest

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
