"""Recipes: everything but the seed that determines a trained network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tasksym import _checks
from tasksym.tasks import FlipFlop, Task, Trials

EVALUATION_SEED = 2**32 - 1  # of the trials on which all networks are judged


def gaussian(hidden: int, gain: float, rng: np.random.Generator) -> np.ndarray:
    """W_hh (hidden, hidden) with independent entries N(0, gain²/hidden)."""
    return rng.normal(0.0, gain / math.sqrt(hidden), size=(hidden, hidden))


STARTS = {"gaussian": gaussian}


@dataclass(frozen=True)
class Recipe:
    """Everything but the seed that determines a trained network.

    Adam with cosine decay to 1 % of the rate; every step draws fresh trials from the network's own stream.

    Parameters
    ----------
    task : Task
    hidden : int
        Hidden units.
    start : str
        Name in `STARTS` of the distribution of W_hh before training.
    gain : float
        Scale of that distribution.
    learning_rate : float
    steps : int
    trials : int
        Trials a step.
    clip : float
        Largest norm of one network's gradient, over all its weights.

    Raises
    ------
    TypeError, ValueError
        If a setting is out of range, or of the wrong kind.
    """

    task: Task
    hidden: int = 64
    start: str = "gaussian"
    gain: float = 0.5
    learning_rate: float = 1e-3
    steps: int = 1500
    trials: int = 64
    clip: float = 1.0

    def __post_init__(self):
        for name in ("inputs", "outputs", "sample", "score"):
            if not hasattr(self.task, name):
                raise TypeError(f"task must be a task such as FlipFlop(), but {self.task!r} has no '{name}'")
        if self.start not in STARTS:
            raise ValueError(f"start must be one of {', '.join(STARTS)}, got {self.start!r}")
        for name in ("hidden", "steps", "trials"):
            _checks.count(name, getattr(self, name))
        _checks.number("gain", self.gain)
        _checks.number("learning_rate", self.learning_rate, open_low=True)
        _checks.number("clip", self.clip, open_low=True)

    def evaluation_trials(self, trials: int = 512) -> Trials:
        """Trials on which every network of this recipe is judged; no network has trained on their stream."""
        return self.task.sample(trials, rng=EVALUATION_SEED)


RECIPES = {"flip-flop": Recipe(FlipFlop(bits=3, steps=60, pulse_probability=0.1))}
