"""Tasks: what a network is asked to do, and how well it did in terms that a person would care about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.signal

from tasksym import _checks
from tasksym.trials import Trials


@dataclass(frozen=True)
class Copy:
    """Watch a sequence of symbols, then replay it in silence (Hochreiter and Schmidhuber 1997; arXiv 2606.18457).

    A trial has `length` steps with one symbol each, then `length` silent steps of replay. Only the replay counts.

    Parameters
    ----------
    symbols : int
        Symbols of the alphabet, at least 2; one channel each.
    length : int
        Symbols of a sequence.

    Raises
    ------
    ValueError, TypeError
        If a setting is out of range, or of the wrong kind.
    """

    symbols: int = 8
    length: int = 9

    def __post_init__(self):
        _checks.count("symbols", self.symbols, minimum=2)
        _checks.count("length", self.length)

    @property
    def inputs(self) -> int:
        return self.symbols

    @property
    def outputs(self) -> int:
        return self.symbols

    def sample(self, trials: int, rng) -> Trials:
        """Draw trials: inputs and targets (time, trial, symbol) in {0, 1}; the last `length` steps count."""
        trials = _checks.count("trials", trials)
        drawn = _checks.generator(rng).integers(self.symbols, size=(self.length, trials))
        sequence = np.eye(self.symbols, dtype=np.float32)[drawn]
        silence = np.zeros_like(sequence)
        return Trials(
            inputs=np.concatenate([sequence, silence]),
            targets=np.concatenate([silence, sequence]),
            mask=np.arange(2 * self.length) >= self.length,
        )

    def score(self, outputs, trials: Trials) -> np.ndarray:
        """Share of replayed symbols that are right: the output of the right symbol stands above all others."""
        outputs = _checks.outputs(outputs, trials)[..., trials.mask, :, :]
        wanted = trials.targets[trials.mask] == 1
        right = np.where(wanted, outputs, -np.inf).max(axis=-1) > np.where(wanted, -np.inf, outputs).max(axis=-1)
        return right.mean(axis=(-2, -1))


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
        """Draw trials: inputs (time, trial, bit) in {-1, 0, 1} and targets in {-1, 1}; every step counts."""
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
        """Share of bits, over masked steps and trials, whose output has the right sign."""
        outputs = _checks.outputs(outputs, trials)
        right = np.sign(outputs) == np.sign(trials.targets)
        return right[..., trials.mask, :, :].mean(axis=(-3, -2, -1))


@dataclass(frozen=True)
class SineGeneration:
    """Generate a sine wave whose frequency is told by a constant input (Sussillo and Barak 2013).

    Parameters
    ----------
    steps : int
        Length of a trial.
    low, high : float
        Frequencies are uniform in [low, high], in cycles a step.
    amplitude : float

    Raises
    ------
    ValueError, TypeError
        If a setting is out of range, or of the wrong kind.
    """

    steps: int = 100
    low: float = 0.04
    high: float = 0.12
    amplitude: float = 0.8

    def __post_init__(self):
        _checks.count("steps", self.steps, minimum=4)
        _checks.number("high", self.high, high=0.5, open_low=True)
        _checks.number("low", self.low, high=self.high, open_low=True)
        _checks.number("amplitude", self.amplitude, open_low=True)

    @property
    def inputs(self) -> int:
        return 2

    @property
    def outputs(self) -> int:
        return 1

    def sample(self, trials: int, rng) -> Trials:
        """Draw trials: inputs (time, trial, 2) hold the frequency, scaled to [-1, 1], and a constant 1.

        Targets (time, trial, 1) are amplitude · sin(2π f t) at t = 1, …, steps, so that the wave leaves the state of
        rest at t = 0. Every step counts.
        """
        trials = _checks.count("trials", trials)
        place = _checks.generator(rng).uniform(-1.0, 1.0, size=trials)
        frequency = self.low + (self.high - self.low) * (place + 1) / 2
        time = np.arange(1, self.steps + 1)[:, None]
        wave = self.amplitude * np.sin(2 * np.pi * frequency * time)
        told = np.stack([place, np.ones(trials)], axis=-1)
        return Trials(
            inputs=np.tile(told.astype(np.float32), (self.steps, 1, 1)),
            targets=wave[..., None].astype(np.float32),
            mask=np.ones(self.steps, dtype=bool),
        )

    def score(self, outputs, trials: Trials) -> np.ndarray:
        """Share of trials whose frequency is within 5 % of the target's.

        The frequency of a wave is where its periodogram peaks. A constant output has none, and is never right.
        """
        if np.diff(np.flatnonzero(trials.mask)).max(initial=1) > 1:
            raise ValueError("the steps that count must follow one another, or a wave has no frequency")
        found = _frequency(_checks.outputs(outputs, trials)[..., 0][..., trials.mask, :])
        wanted = _frequency(trials.targets[..., 0][trials.mask])
        return (np.abs(found - wanted) <= 0.05 * wanted).mean(axis=-1)


@dataclass(frozen=True)
class ContextIntegration:
    """Integrate the one of two noisy streams that the context names (Mante, Sussillo, Shenoy and Newsome 2013).

    Parameters
    ----------
    steps : int
        Length of a trial.
    mean : float
        Each stream of each trial has a mean that is uniform in ±mean.
    noise : float
        Standard deviation of what is added to the mean, step by step.

    Raises
    ------
    ValueError, TypeError
        If a setting is out of range, or of the wrong kind.
    """

    steps: int = 60
    mean: float = 0.2
    noise: float = 0.1

    def __post_init__(self):
        _checks.count("steps", self.steps)
        _checks.number("mean", self.mean, open_low=True)
        _checks.number("noise", self.noise)

    @property
    def inputs(self) -> int:
        return 4

    @property
    def outputs(self) -> int:
        return 1

    def sample(self, trials: int, rng) -> Trials:
        """Draw trials: inputs (time, trial, 4) hold the two streams, then the context, one-hot.

        Targets (time, trial, 1) are the cumulative sum of the stream that the context names, over √steps. Every step
        counts.
        """
        trials = _checks.count("trials", trials)
        rng = _checks.generator(rng)
        means = rng.uniform(-self.mean, self.mean, size=(trials, 2))
        streams = means + self.noise * rng.standard_normal(size=(self.steps, trials, 2))
        context = rng.integers(2, size=trials)
        named = streams[:, np.arange(trials), context]
        told = np.tile(np.eye(2)[context], (self.steps, 1, 1))
        return Trials(
            inputs=np.concatenate([streams, told], axis=-1).astype(np.float32),
            targets=(np.cumsum(named, axis=0) / np.sqrt(self.steps))[..., None].astype(np.float32),
            mask=np.ones(self.steps, dtype=bool),
        )

    def score(self, outputs, trials: Trials) -> np.ndarray:
        """Share of trials whose output has the right sign at the last step that counts."""
        outputs = _checks.outputs(outputs, trials)
        last = np.flatnonzero(trials.mask)[-1]
        right = np.sign(outputs[..., last, :, 0]) == np.sign(trials.targets[last, :, 0])
        return right.mean(axis=-1)


def _frequency(waves: np.ndarray) -> np.ndarray:
    """Cycles a step (..., trial) of waves (..., time, trial); 0 for a constant."""
    steps = waves.shape[-2]
    frequencies, power = scipy.signal.periodogram(waves, window="hann", nfft=20 * steps, axis=-2)
    return frequencies[power.argmax(axis=-2)]
