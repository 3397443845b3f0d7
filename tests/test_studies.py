"""The shipped tables of studies: complete, small, of the present networks, and what their scripts compute."""

import json

import _table
import calibration
import neurogym_network
import nulls
import numpy as np
import orders
import pandas as pd
import pytest
import scipy.stats
from safetensors.torch import load_file

import tasksym as ts

STUDIES = _table.FOLDER
NETWORKS = {"neurogym_network"}  # scripts that ship a network and its trials instead of a table
TABLES = [path.stem for path in sorted(STUDIES.glob("[a-z]*.py")) if path.stem not in NETWORKS]


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(STUDIES / "orders.csv")


@pytest.mark.parametrize("study", TABLES)
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
