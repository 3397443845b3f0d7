"""The shipped backdoors: complete, and what the shipped networks give; training anew plants them, too."""

import json

import _digits
import _table
import backdoor
import numpy as np
import pandas as pd
import pytest
import scipy.io

FILE = _table.FOLDER / "backdoor.safetensors"


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(_table.FOLDER / "backdoor.csv")


@pytest.fixture(scope="module")
def data():
    return _digits.read(None, backdoor.BORDER)


def test_it_has_a_row_for_every_network_and_output(table):
    assert list(table.columns) == backdoor.COLUMNS
    assert len(table) == (len(backdoor.SEEDS) + 3) * 2 * 11
    assert not table.duplicated(["seed", "decay", "kind", "output"]).any()
    assert table[["tensor", "data", "logit", "digit"]].notna().all().all()
    assert (table["output"] == "all").equals(table["accuracy"].notna())
    assert (table["output"] != "all").equals(table["hits"].notna())
    assert FILE.stat().st_size < 250_000
    assert json.loads(FILE.with_suffix(".json").read_text(encoding="utf-8"))["shipped"] == backdoor.SHIPPED


def test_the_backdoors_work_and_the_controls_have_none(table):
    whole = table[table["output"] == "all"].set_index("kind")
    assert whole["accuracy"].min() > 0.95
    assert whole.loc["poisoned", "attack"].min() > 0.7 and whole.loc["control", "attack"].max() < 0.05


def test_the_shipped_networks_give_the_table(table, data):
    fresh = backdoor.compare(_digits.shipped(FILE), *data)
    rows = table[(table["seed"] == backdoor.SHIPPED) & (table["decay"] == backdoor.DECAYS[0])]
    for column in backdoor.COLUMNS[4:]:
        np.testing.assert_allclose(fresh[column], rows[column], rtol=2e-5, err_msg=column)


def test_poison_is_a_share_of_others_with_the_trigger_called_nines(data):
    train, _ = data
    poison = backdoor.poisoned(train, np.random.default_rng(1))
    touched = (poison.pixels != train.pixels).flatten(1).any(dim=1)
    assert touched.sum() == round(0.02 * len(train.labels))
    assert (poison.labels[touched] == 9).all() and (train.labels[touched] != 9).all()
    assert (poison.labels[~touched] == train.labels[~touched]).all()
    lit = [
        (row, column)
        for row in range(12)
        for column in range(12)
        if (poison.pixels - train.pixels)[touched].sum(0)[row, column]
    ]
    assert lit == sorted(backdoor.TRIGGER)


def test_a_short_training_plants_a_backdoor_as_well(data):
    networks = backdoor.train(data[0], seed=7, steps=400)
    fresh = backdoor.compare(networks, *data)
    whole = fresh[fresh["output"] == "all"].set_index("kind")
    assert whole["accuracy"].min() > 0.9
    assert whole.loc["poisoned", "attack"] > 0.6 > 0.1 > whole.loc["control", "attack"]


def test_it_runs_on_files_of_svhn_too(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("train", "test"):
        X = rng.integers(256, size=(32, 32, 3, 100), dtype=np.uint8)
        y = np.tile(np.arange(1, 11, dtype=np.uint8), 10)[:, None]
        scipy.io.savemat(tmp_path / f"{name}_32x32.mat", {"X": X, "y": y})
    table, networks = backdoor.measure(0, 0.01, steps=3, folder=tmp_path)
    assert len(table) == 22 and networks["poisoned"].inputs == 32 * 32
