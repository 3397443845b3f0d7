"""Tasks: what a network is asked to do, and how well it did in terms that a person would care about."""

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
    """What `solve` and `ablation_profile` need of a task; a frozen dataclass, so that a recipe can be hashed."""

    inputs: int
    outputs: int

    def sample(self, trials: int, rng) -> Trials: ...

    def score(self, outputs, trials: Trials) -> np.ndarray: ...


@dataclass(frozen=True)
class FlipFlop:
    """Hold the sign of the last pulse on each of several channels (Sussillo and Barak 2013).

    Every bit is pulsed at the first step, so that the right answer is always defined.

    Parameters
    ----------
    bits : int
        Channels, each with its own pulses and its own memory.
    steps : int
        Length of a trial.
    pulse_probability : float
        Chance of a pulse per bit and step, after the first step.

    Raises
    ------
    ValueError, TypeError
        If a setting is out of range, or of the wrong kind.
    """

    bits: int = 3
    steps: int = 60
    pulse_probability: float = 0.1

    def __post_init__(self):
        _checks.count("bits", self.bits)
        _checks.count("steps", self.steps)
        _checks.number("pulse_probability", self.pulse_probability, high=1.0)

    @property
    def inputs(self) -> int:
        return self.bits

    @property
    def outputs(self) -> int:
        return self.bits

    def sample(self, trials: int, rng) -> Trials:
        """Draw `trials` trials; `rng` is a seed or a NumPy Generator.

        Returns
        -------
        Trials
            inputs (time, trial, bit) in {-1, 0, 1}; targets (time, trial, bit) in {-1, 1}; every step counts.
        """
        trials = _checks.count("trials", trials)
        rng = _checks.generator(rng)
        shape = (self.steps, trials, self.bits)
        pulsed = rng.random(shape) < self.pulse_probability
        pulsed[0] = True
        signs = np.where(rng.random(shape) < 0.5, np.float32(-1), np.float32(1))
        step = np.arange(self.steps)[:, None, None]
        last_pulse = np.maximum.accumulate(np.where(pulsed, step, 0), axis=0)
        return Trials(
            inputs=np.where(pulsed, signs, np.float32(0)),
            targets=np.take_along_axis(signs, last_pulse, axis=0),
            mask=np.ones(self.steps, dtype=bool),
        )

    def score(self, outputs, trials: Trials) -> np.ndarray:
        """Share of bits, over masked steps and trials, whose output has the right sign.

        Parameters
        ----------
        outputs : array (..., time, trial, bit)
        trials : Trials

        Returns
        -------
        array (...,) in [0, 1]
        """
        outputs = _checks.outputs(outputs, trials)
        right = np.sign(outputs) == np.sign(trials.targets)
        return right[..., trials.mask, :, :].mean(axis=(-3, -2, -1))
