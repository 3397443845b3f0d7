"""Recipes: everything but the seed that determines a trained network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from tasksym import _checks
from tasksym.tasks import ContextIntegration, Copy, FlipFlop, SineGeneration
from tasksym.trials import Task, Trials

EVALUATION_SEED = 2**32 - 1  # of the trials on which all networks are judged


def gaussian(hidden: int, gain: float, rng: np.random.Generator) -> np.ndarray:
    """Independent entries N(0, gain²/hidden): eigenvalues fill a disc of radius `gain`."""
    return rng.normal(0.0, gain / math.sqrt(hidden), size=(hidden, hidden))


def orthogonal(hidden: int, gain: float, rng: np.random.Generator) -> np.ndarray:
    """`gain` times an orthogonal matrix, uniform in the Haar measure: all eigenvalues have modulus `gain`."""
    return gain * scipy.stats.ortho_group.rvs(hidden, random_state=rng)


def identity(hidden: int, gain: float, rng: np.random.Generator) -> np.ndarray:
    """`gain` times the identity (Le, Jaitly and Hinton 2015); nothing is drawn."""
    return gain * np.eye(hidden)


def uniform(hidden: int, gain: float, rng: np.random.Generator) -> np.ndarray:
    """Independent entries, uniform in ±gain/√hidden; gain 1 is the start of `torch.nn.RNN`."""
    limit = gain / math.sqrt(hidden)
    return rng.uniform(-limit, limit, size=(hidden, hidden))


def dense(parameter: Tensor) -> Tensor:
    """W_hh is the trained matrix itself."""
    return parameter


def cayley(parameter: Tensor) -> Tensor:
    """W_hh = (I + S)⁻¹(I − S) with S the skew part of the trained matrix: orthogonal throughout training."""
    S = (parameter - parameter.mT) / 2
    identity = torch.eye(S.shape[-1], dtype=S.dtype)
    return torch.linalg.solve(identity + S, identity - S)


STARTS = {"gaussian": gaussian, "orthogonal": orthogonal, "identity": identity, "uniform": uniform}
PARAMETRISATIONS = {"dense": dense, "cayley": cayley}


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
        Name in `STARTS` of the distribution of the recurrent parameter before training.
    gain : float
        Scale of that distribution.
    parametrisation : str
        Name in `PARAMETRISATIONS` of the map from the recurrent parameter to W_hh.
    learning_rate : float
    steps : int
    trials : int
        Trials a step.
    clip : float
        Largest norm of one network's gradient, over all its parameters.

    Raises
    ------
    TypeError, ValueError
        If a setting is out of range, or of the wrong kind.
    """

    task: Task
    hidden: int = 64
    start: str = "gaussian"
    gain: float = 0.5
    parametrisation: str = "dense"
    learning_rate: float = 1e-3
    steps: int = 1500
    trials: int = 64
    clip: float = 1.0

    def __post_init__(self):
        for name in ("inputs", "outputs", "sample", "score"):
            if not hasattr(self.task, name):
                raise TypeError(f"task must be a task such as FlipFlop(), but {self.task!r} has no '{name}'")
        for name, registry in (("start", STARTS), ("parametrisation", PARAMETRISATIONS)):
            if getattr(self, name) not in registry:
                raise ValueError(f"{name} must be one of {', '.join(registry)}, got {getattr(self, name)!r}")
        for name in ("hidden", "steps", "trials"):
            _checks.count(name, getattr(self, name))
        _checks.number("gain", self.gain)
        _checks.number("learning_rate", self.learning_rate, open_low=True)
        _checks.number("clip", self.clip, open_low=True)

    def evaluation_trials(self, trials: int = 512) -> Trials:
        """Trials on which every network of this recipe is judged; no network has trained on their stream."""
        return self.task.sample(trials, rng=EVALUATION_SEED)


RECIPES = {
    "copy-dense-orthogonal": Recipe(Copy(), hidden=72, start="orthogonal", gain=1.0, learning_rate=5e-4),
    "copy-cayley": Recipe(Copy(), hidden=72, gain=1.5, parametrisation="cayley", learning_rate=3e-3, steps=5000),
    "flip-flop": Recipe(FlipFlop()),
    "sine": Recipe(SineGeneration()),
    "context-integration": Recipe(ContextIntegration()),
}
