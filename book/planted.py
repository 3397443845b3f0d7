"""Networks whose truth is known because they were built: what each coupling does can be read off their weights.

All have one leading unit, fed by C→R, which is small and without which the first output is lost. What differs is T_CC,
which is large and can go, each time for another reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import tasksym as ts

KINDS = ("inert", "output-null", "redundant")
LEADING, TARGETS, ACTIVE, SILENT = slice(0, 1), slice(1, 7), slice(7, 13), slice(13, 19)
HIDDEN, STEPS = 19, 30


@dataclass(frozen=True)
class Teacher:
    """A noisy constant goes in, and what the planted network itself makes of it is to come out."""

    kind: str
    inputs: int = 1
    outputs: int = 2

    def sample(self, trials: int, rng) -> ts.Trials:
        rng = np.random.default_rng(rng)
        level = rng.choice([-1, 1], size=trials) * rng.uniform(0.3, 1, size=trials)
        inputs = level[:, None] + rng.normal(0, 0.1, size=(STEPS, trials, 1))
        return ts.Trials(inputs, network(self.kind).outputs(inputs)[0].numpy(), np.ones(STEPS, dtype=bool))

    def score(self, outputs, trials: ts.Trials) -> np.ndarray:
        """Share of outputs that are off by at most a tenth of the largest target."""
        close = np.abs(outputs - trials.targets) <= 0.1 * np.abs(trials.targets).max()
        return close.mean(axis=(-3, -2, -1))


def network(kind: str) -> ts.TanhRNN:
    """A network whose T_CC is "inert", "output-null" or "redundant"; hidden units are shuffled and some mirrored.

    Inert: it starts in units that are always at zero. Output-null: it ends in units that nobody reads. Redundant: it
    ends in units that are read, and that the encoder drives so hard that they are saturated without it.
    """
    T = np.diag(np.r_[0.95, np.linspace(0.6, 0.05, HIDDEN - 1)])
    T[LEADING, ACTIVE] = 0.012
    T[TARGETS, SILENT if kind == "inert" else ACTIVE] = 0.3
    encoder, decoder = np.zeros((HIDDEN, 1)), np.zeros((2, HIDDEN))
    encoder[ACTIVE] = 0.8
    encoder[TARGETS] = 4.5 if kind == "redundant" else 0.0
    decoder[0, LEADING] = 1
    decoder[1, TARGETS if kind == "redundant" else ACTIVE] = 1 / 6
    rng = np.random.default_rng(KINDS.index(kind))
    order, sign = rng.permutation(HIDDEN), rng.choice([-1, 1], size=HIDDEN)
    matrices = encoder * sign[:, None], sign[:, None] * T * sign, decoder * sign
    shuffled = matrices[0][order], matrices[1][np.ix_(order, order)], matrices[2][:, order]
    return ts.TanhRNN(*(torch.tensor(matrix)[None] for matrix in shuffled))


def solutions(kind: str) -> ts.Solutions:
    """The same as a family of one, which the library's tables take."""
    return ts.Solutions(ts.Recipe(Teacher(kind), hidden=HIDDEN), (0,), network(kind), torch.zeros(1, 1))
