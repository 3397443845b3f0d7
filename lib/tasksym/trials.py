"""Trials, and what a task has to offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasksym import _checks


@dataclass(frozen=True, eq=False)
class Trials:
    """Inputs and targets of many trials of one task.

    Parameters
    ----------
    inputs : array (time, trial, in)
    targets : array (time, trial, out)
    mask : array of bool (time,)
        Steps that count for the loss, the FVU and the score.

    Raises
    ------
    ValueError
        If shapes disagree, an entry is not finite, or the mask is empty.
    """

    inputs: np.ndarray
    targets: np.ndarray
    mask: np.ndarray

    def __post_init__(self):
        inputs = _checks.real_array("inputs", self.inputs)
        targets = _checks.real_array("targets", self.targets)
        mask = np.asarray(self.mask)
        for name, array in (("inputs", inputs), ("targets", targets)):
            if array.ndim != 3 or 0 in array.shape:
                raise ValueError(
                    f"{name} must have the axes (time, trial, channel), none empty; got shape {array.shape}"
                )
        if inputs.shape[:2] != targets.shape[:2]:
            raise ValueError(
                f"inputs and targets must agree in (time, trial), got {inputs.shape[:2]} and {targets.shape[:2]}"
            )
        if mask.dtype != bool or mask.shape != inputs.shape[:1]:
            raise ValueError(
                f"mask must be boolean with one entry a step, shape {inputs.shape[:1]}; got {mask.dtype} {mask.shape}"
            )
        if not mask.any():
            raise ValueError("mask must select at least one step, but every entry is False")
        for name, array in (("inputs", inputs), ("targets", targets), ("mask", mask)):
            object.__setattr__(self, name, array)


class Task(Protocol):
    """What `solve` and `ablation_profile` need of a task; a frozen dataclass, so that a recipe can be hashed.

    Attributes
    ----------
    inputs, outputs : int
        Channels.
    """

    inputs: int
    outputs: int

    def sample(self, trials: int, rng) -> Trials:
        """Draw trials.

        Parameters
        ----------
        trials : int
            How many, at least one.
        rng : int or numpy Generator
            A seed, or the generator to draw from.
        """
        ...

    def score(self, outputs, trials: Trials) -> np.ndarray:
        """How well it was done, as a person would count it.

        Parameters
        ----------
        outputs : array (..., time, trial, out)
            Answers to `trials`; leading axes count networks.
        trials : Trials

        Returns
        -------
        array (...,) in [0, 1]
        """
        ...
