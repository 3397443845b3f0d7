"""The shipped table of the study of grokking: complete, and what its script computes from the shipped networks."""

import _table
import grokking
import numpy as np
import pandas as pd
import pytest
import torch

import tasksym as ts

TABLE = pd.read_csv(_table.FOLDER / "grokking.csv")
CHECKPOINTS = pd.read_csv(_table.FOLDER / "grokking-checkpoints.csv")


@pytest.fixture(scope="module")
def shipped():
    return grokking.shipped()


def test_the_tables_have_every_run_checkpoint_and_pair():
    runs = [
        (kind, seed, step) for kind, seeds in grokking.KINDS.items() for seed in seeds for step in grokking.CHECKPOINTS
    ]
    assert list(CHECKPOINTS[["kind", "seed", "step"]].itertuples(index=False, name=None)) == runs
    n = len(grokking.CHECKPOINTS)
    wanted = {"half": n * (n - 1) // 2, "whole": 2 * n - 3, "no decay": 2 * n - 3}
    assert not TABLE.duplicated(["kind", "seed", "step", "other"]).any()
    assert TABLE.groupby(["kind", "seed"]).size().to_dict() == {
        (kind, seed): wanted[kind] for kind, seeds in grokking.KINDS.items() for seed in seeds
    }
    assert (_table.FOLDER / "grokking-checkpoints.csv").stat().st_size < 300_000
    assert (_table.FOLDER / "grokking.safetensors").stat().st_size < 300_000


def test_shipped_networks_give_the_rows_of_their_checkpoints(shipped):
    for (seed, step), net in shipped.items():
        rows = CHECKPOINTS[
            (CHECKPOINTS["kind"] == "half") & (CHECKPOINTS["seed"] == seed) & (CHECKPOINTS["step"] == step)
        ]
        again = pd.Series(grokking.describe(net, seed))
        np.testing.assert_allclose(again, rows.iloc[0][again.index].astype(float), atol=2e-3)


def test_shipped_networks_give_the_rows_of_their_pairs(shipped):
    (one, other) = [step for seed, step in shipped if seed == 0 and step < grokking.STEPS]
    again = grokking.compare([shipped[0, one], shipped[0, other]], [(0, 1)])
    rows = TABLE[(TABLE["kind"] == "half") & (TABLE["seed"] == 0) & (TABLE["step"] == one) & (TABLE["other"] == other)]
    np.testing.assert_allclose(again, rows[grokking.MEASURES], atol=2e-3)


def test_a_first_stretch_of_training_is_in_the_tables_bands():
    nets, learned = grokking.train("half", 1, 200)
    rows = CHECKPOINTS[(CHECKPOINTS["kind"] == "half") & (CHECKPOINTS["seed"] == 1)].set_index("step")
    again = grokking.describe(nets[200], 1)
    assert learned is None and again["train"] > 0.95 and again["test"] < 0.3
    assert again["unseen_share"] == pytest.approx(rows.loc[200, "unseen_share"], abs=0.02)


def test_the_moment_is_that_of_all_pairs():
    P, S = grokking.P, grokking.moment()
    inputs, sums = grokking.table()
    np.testing.assert_allclose(S[0, 1:], 1 / P)
    np.testing.assert_allclose(S[1:, 1:], (inputs.double().T @ inputs.double()).numpy() / P**2, atol=1e-12)
    assert len(sums) == P**2 and (sums == (inputs[:, :P].argmax(1) + inputs[:, P:].argmax(1)) % P).all()


def planted(frequencies, noise=0.0):
    """A network whose logits are sums of cos 2πk(a + b − c)/P, and units with random weights beside."""
    P, units = grokking.P, []
    x = np.arange(P) * 2 * np.pi / P
    for k in frequencies:  # cos(u + v − w) by products of waves of a and of b
        c, s, zero = np.cos(k * x), np.sin(k * x), np.zeros(P)
        for out, a, b in ((c, c, c), (-c, s, s), (s, s, c), (s, c, s)):
            units.append((out, np.concatenate([a, zero]), np.concatenate([zero, b])))
    rng = np.random.default_rng(0)
    units += [(noise * rng.normal(size=P), *rng.normal(size=(2, 2 * P))) for _ in range(4 if noise else 0)]
    D, L, R = (np.array(each) for each in zip(*units, strict=True))
    return ts.Bilinear(D.T, L, R, lift=False)


def test_planted_frequencies_are_found_and_kept():
    share = grokking.spectrum(planted([3, 17]))
    assert share.sum() == pytest.approx(1) and share[[2, 16]] == pytest.approx(0.5)
    noisy = planted([3, 17], noise=1.0)
    assert grokking.spectrum(noisy).sum() < 0.9
    np.testing.assert_allclose(
        grokking.keep_frequencies(planted([3, 17]), [3]), grokking.crossed(planted([3])), atol=1e-10
    )


def test_what_no_input_shows_can_change_without_any_logit_moving():
    net, rng = (
        ts.Bilinear.random(2 * grokking.P, 8, grokking.P, lift=False, dtype=torch.float64),
        np.random.default_rng(1),
    )
    inputs = grokking.table()[0].double()
    left, right = np.zeros((2, 1, 2 * grokking.P))
    left[0, 3], right[0, 7] = 5.0, 5.0  # a is never 3 and 7 at once
    D = np.concatenate([net.D.detach(), rng.normal(size=(grokking.P, 1))], axis=1)
    L, R = np.concatenate([net.L.detach(), left]), np.concatenate([net.R.detach(), right])
    changed = ts.Bilinear(D, L, R, lift=False)
    torch.testing.assert_close(changed(inputs), net(inputs))
    assert grokking.unseen_share(changed) > grokking.unseen_share(net) + 0.01
    assert ts.similarity(net, changed, "sym") < 0.99
