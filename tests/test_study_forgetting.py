"""The shipped stages of forgetting: complete, and what the shipped networks give; training anew forgets, too."""

import json

import _digits
import _table
import forgetting
import numpy as np
import pandas as pd
import pytest

FILE = _table.FOLDER / "forgetting.safetensors"


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(_table.FOLDER / "forgetting.csv")


@pytest.fixture(scope="module")
def data():
    return _digits.read()


def test_it_has_a_row_for_every_network_stage_and_output(table):
    assert list(table.columns) == forgetting.COLUMNS
    assert len(table) == len(forgetting.SEEDS) * len(forgetting.STAGES) * 11
    assert not table.duplicated(["seed", "stage", "output"]).any() and table.notna().all().all()
    assert list(table["stage"].unique()) == forgetting.STAGES
    assert FILE.stat().st_size < 250_000
    facts = json.loads(FILE.with_suffix(".json").read_text(encoding="utf-8"))
    assert facts["shipped"] == forgetting.SHIPPED
    assert facts["other"] == {str(seed): forgetting.other(seed) for seed in forgetting.SEEDS}


def test_what_is_dropped_is_forgotten_and_learnt_again(table):
    nine = table[table["output"] == "9"].set_index(["stage", "seed"])["accuracy"]
    assert nine["drop 9"].max() < 0.1
    assert min(nine[stage].min() for stage in ("repeat", "keep", "re-add", "drop other")) > 0.85
    for seed in forgetting.SEEDS:
        rows = table[(table["stage"] == "drop other") & (table["seed"] == seed)].set_index("output")
        assert rows.loc[str(forgetting.other(seed)), "accuracy"] < 0.1


def test_the_shipped_networks_give_the_table(table, data):
    fresh = forgetting.compare(_digits.shipped(FILE), *data)
    rows = (
        table[table["seed"] == forgetting.SHIPPED]
        .set_index(["stage", "output"])
        .loc[list(zip(fresh["stage"], fresh["output"], strict=True))]
    )
    for column in forgetting.COLUMNS[3:]:
        np.testing.assert_allclose(fresh[column], rows[column], rtol=2e-5, atol=2e-5, err_msg=column)


def test_a_short_training_forgets_as_well(data):
    networks = forgetting.train(data[0], seed=7, steps=150)
    assert list(networks) == forgetting.STAGES
    nines = data[1].of([9])
    right = {stage: _digits.right(layer, nines).mean() for stage, layer in networks.items()}
    assert right["drop 9"] < 0.3 and min(right["keep"], right["re-add"]) > 0.6
