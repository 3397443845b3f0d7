"""The shipped tables of the language models: complete, and what the script computes from the shipped networks."""

import hashlib
import json

import _table
import language_model as lm
import numpy as np
import pandas as pd
import pytest
import torch

import tasksym as ts

TABLE = pd.read_csv(_table.FOLDER / "language_model.csv")
CHECKPOINTS = pd.read_csv(_table.FOLDER / "language_model-checkpoints.csv")
PROVENANCE = json.loads((_table.FOLDER / "language_model.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shipped():
    return lm.shipped()


def stored(layers, one, other):
    rows = TABLE[(TABLE["layers"] == layers) & (TABLE["seed"] == 0)]
    return rows[(rows["step"] == one) & (rows["other"] == other)].iloc[0]


def test_the_tables_have_every_run_checkpoint_and_pair():
    runs = [(layers, seed) for layers, seeds in lm.RUNS.items() for seed in seeds]
    rows = [(*run, step) for run in runs for step in lm.CHECKPOINTS]
    assert list(CHECKPOINTS[["layers", "seed", "step"]].itertuples(index=False, name=None)) == rows
    assert not TABLE.duplicated(["layers", "seed", "step", "other"]).any()
    n = len(lm.CHECKPOINTS)
    assert TABLE.groupby(["layers", "seed"]).size().to_dict() == dict.fromkeys(runs, n * (n - 1) // 2)
    assert (_table.FOLDER / "language_model.safetensors").stat().st_size < 300_000


def test_shipped_networks_give_the_rows_of_their_pairs(shipped):
    for layers in lm.RUNS:
        (_, a), (_, b) = [key for key in shipped if key[0] == layers][1:3]
        again = ts.attention_similarity(shipped[layers, a], shipped[layers, b], lm.CONTEXT)
        assert float(again) == pytest.approx(stored(layers, a, b)["identity"], abs=2e-3)
        weights = ts.matrix_cosine(shipped[layers, a], shipped[layers, b])
        assert weights == pytest.approx(stored(layers, a, b)["matrix"], abs=2e-3)


def test_all_measures_agree_where_the_text_is_the_same(shipped):
    if hashlib.sha256(lm.text().encode()).hexdigest() != PROVENANCE["text"]["sha256"]:
        pytest.skip("this Python has other help texts")
    training, windows = lm.split(lm.encoded())
    steps = [step for layers, step in shipped if layers == 2]
    nets = [shipped[2, step] for step in steps]
    measures = lm.compare(nets, windows, lm.frequencies(training))
    for name in lm.MEASURES:
        assert measures[name][1, 2] == pytest.approx(stored(2, steps[1], steps[2])[name], abs=5e-3), name
    row = CHECKPOINTS[(CHECKPOINTS["layers"] == 2) & (CHECKPOINTS["step"] == steps[2])].iloc[0]
    again = lm.describe(nets[2], windows, lm.statistics(training))
    np.testing.assert_allclose(list(again.values()), row[list(again)].astype(float), atol=1e-2)


def test_a_first_stretch_of_training_is_in_a_band():
    training, windows = lm.split(lm.encoded())
    nets = lm.train(1, 5, lm.encoded(), 27)
    loss = [lm.describe(nets[step], windows, lm.statistics(training))["loss"] for step in (0, 27)]
    assert loss[0] > 4 > 3.4 > loss[1] > 2.5


def test_ngram_predictions_are_distributions_and_follow_the_counts():
    codes = torch.tensor([0, 1, 2] * 500 + [3])
    tables = lm.statistics(codes)
    for n, table in tables.items():
        assert table.shape == n * (lm.CHARACTERS,)
        np.testing.assert_allclose(np.exp(table).sum(axis=-1), 1)
    np.testing.assert_allclose(np.exp(tables[1][:3]), 500 / 1501, rtol=1e-2)
    assert np.exp(tables[2][0, 1]) > 0.99 and np.exp(tables[3][0, 1, 2]) > 0.99
    np.testing.assert_allclose(tables[3][40, 0], tables[2][0])  # never seen: as one character says


def test_blocks_are_told_from_other_partitions():
    blocks = np.repeat([0, 1, 2], [3, 4, 5])
    M = np.where(blocks[:, None] == blocks, 0.9, 0.1) + 1e-3 * np.random.default_rng(0).normal(size=(12, 12))
    M = (M + M.T) / 2
    assert lm.separation(M, blocks) == 1
    others = lm.partitions(12, 3)
    assert sum((other == blocks).all() for other in others) == 1
    assert sorted(lm.separation(M, other) for other in others)[-2] < 1
