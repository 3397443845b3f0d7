"""What removing a coupling does on inputs that training did not show, for every network that has couplings.

python book/studies/off_distribution.py writes off_distribution.csv and off_distribution.json, in about eight minutes
of one core.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace

import _table
import numpy as np
import pandas as pd

import tasksym as ts
from tasksym.recipes import EVALUATION_SEED

FAMILIES = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # those that have couplings
TRIALS = 512
ORDERS = range(4)  # 0 by modulus, the others random; C→R is the same in all
COLUMNS = ["family", "condition", "seed", "order", "couplings", "fvu", "score", "deviation", "spread"]
JITTER = 0.1  # standard deviation of what is added to every input of the condition "noisy"


def conditions(family: str, trials: int = TRIALS) -> dict[str, ts.Trials]:
    """A family's evaluation trials, then trials of other kinds, each changed in one respect.

    Where the task has no right answer all targets are zero: see `answered`.
    """
    task = ts.RECIPES[family].task
    usual, rng = task.sample(trials, EVALUATION_SEED), np.random.default_rng(2026)
    noise = rng.standard_normal(usual.inputs.shape)
    size = np.sqrt(np.square(usual.inputs, dtype=float).mean(axis=(0, 1)))  # root mean square, channel by channel
    return (
        {"task": usual}
        | OTHERS[family](task, usual, rng)
        | {
            "noisy": replace(usual, inputs=usual.inputs + JITTER * noise),
            "white noise": _unanswered(usual, size * noise),
        }
    )


def answered(trials: ts.Trials) -> bool:
    """Whether there is a right answer to these trials."""
    return bool(trials.targets.any())


def measure(family: str, seed: int, only: Iterable[str] | None = None, orders: Iterable[int] = ORDERS) -> pd.DataFrame:
    """FVU, score and deviation of one network, whole ("") and without each coupling, on the task and off it.

    The deviation is the FVU with the whole network's outputs as targets. Spread is the variance of the whole network's
    outputs over that on the task. With `only`, the task and these conditions are measured.
    """
    solutions = ts.reference(family).of([seed])
    removed, matrices = _ablations(solutions, orders)
    networks = solutions.weights.variants(0, matrices)
    rows, on_task = [], None
    for condition, trials in conditions(family).items():
        if only is not None and condition not in ("task", *only):
            continue
        outputs = networks.outputs(trials.inputs).numpy()
        variance = outputs[0][trials.mask].var(axis=(0, 1)).sum()
        on_task = on_task or variance
        deviation = ts.fvu(outputs, replace(trials, targets=outputs[0]))
        fvu = score = np.full(len(removed), np.nan)
        if answered(trials):
            fvu, score = ts.fvu(outputs, trials), solutions.recipe.task.score(outputs, trials)
        spread = np.where(np.arange(len(removed)) == 0, variance / on_task, np.nan)
        for (order, couplings), *found in zip(removed, fvu, score, deviation, spread, strict=True):
            rows.append((family, condition, seed, order, couplings, *found))
    return pd.DataFrame(rows, columns=COLUMNS)


def _ablations(solutions: ts.Solutions, orders: Iterable[int]) -> tuple[list[tuple[int, str]], np.ndarray]:
    """Order and coupling of every ablation of one network, the whole network first, and the ablated W."""
    schur, seed = ts.ordered_schur(solutions.weights.W_hh[0]), solutions.seeds[0]
    removed, matrices = [(0, "")], [schur.W]
    for order in orders:
        blocks = schur.admissible_order(np.random.default_rng((order, seed))) if order else range(len(schur.blocks))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks; the page says so
            sectors = schur.reordered(blocks).sectors()
        for coupling in ts.COUPLINGS:
            if sectors.mass[coupling] > sectors.mass_floor and (order == 0 or coupling != "CR"):
                removed.append((order, coupling))
                matrices.append(sectors.ablate(coupling))
    return removed, np.stack(matrices)


def _copy(task: ts.Copy, usual: ts.Trials, rng: np.random.Generator) -> dict[str, ts.Trials]:
    steps, trials, _ = usual.inputs.shape
    two = np.array([rng.permutation(task.symbols)[:2] for _ in range(trials)]).T  # (2, trial)
    either = rng.integers(2, size=(task.length, trials))
    step = np.arange(steps)

    def shown(symbols):
        sequence = np.eye(task.symbols)[symbols]
        silence = np.zeros_like(sequence)
        return ts.Trials(np.concatenate([sequence, silence]), np.concatenate([silence, sequence]), usual.mask)

    longer = np.insert(step, [task.length] * 3, steps - 1)  # three more silent steps before the replay
    return {
        "constant": shown(np.tile(two[0], (task.length, 1))),
        "two symbols": shown(np.take_along_axis(two, either, axis=0)),
        "three only": ts.Trials(
            usual.inputs * (step < 3)[:, None, None], usual.targets, usual.mask & (step < task.length + 3)
        ),
        "size 0.5": replace(usual, inputs=0.5 * usual.inputs),
        "size 2": replace(usual, inputs=2 * usual.inputs),
        "delay": ts.Trials(usual.inputs[longer], usual.targets[longer], np.arange(steps + 3) >= task.length + 3),
        "length 5": replace(task, length=5).sample(trials, EVALUATION_SEED),
    }


def _flip_flop(task: ts.FlipFlop, usual: ts.Trials, _) -> dict[str, ts.Trials]:
    trials = usual.inputs.shape[1]
    heights = {f"height {height}": replace(usual, inputs=height * usual.inputs) for height in (0.7, 0.5, 2)}
    return {
        "240 steps": replace(task, steps=240).sample(trials, EVALUATION_SEED),
        "rare": replace(task, pulse_probability=0.02).sample(trials, EVALUATION_SEED),
        "dense": replace(task, pulse_probability=0.3).sample(trials, EVALUATION_SEED),
    } | heights


def _sine(task: ts.SineGeneration, usual: ts.Trials, _) -> dict[str, ts.Trials]:
    trials = usual.inputs.shape[1]

    def band(low, high):
        """Another band, told in the units of the trained one."""
        other = replace(task, low=low, high=high).sample(trials, EVALUATION_SEED)
        place = other.inputs[..., :1]
        frequency = low + (high - low) * (place + 1) / 2
        told = 2 * (frequency - task.low) / (task.high - task.low) - 1
        return replace(other, inputs=np.concatenate([told, np.ones_like(told)], axis=-1))

    return {
        "300 steps": replace(task, steps=300).sample(trials, EVALUATION_SEED),
        "below": band(0.035, 0.04),
        "far below": band(0.02, 0.03),
        "above": band(0.12, 0.13),
        "far above": band(0.13, 0.16),
        "static 0.9": replace(usual, inputs=usual.inputs * [1, 0.9]),
        "static 0": replace(usual, inputs=usual.inputs * [1, 0]),
    }


def _context(task: ts.ContextIntegration, usual: ts.Trials, _) -> dict[str, ts.Trials]:
    trials = usual.inputs.shape[1]

    def other(**settings):
        """Targets stay sums over the root of the trained length."""
        drawn = replace(task, **settings).sample(trials, EVALUATION_SEED)
        return replace(drawn, targets=drawn.targets * np.sqrt(len(drawn.mask) / task.steps))

    def told(both):
        return _unanswered(
            usual, np.concatenate([usual.inputs[..., :2], np.full_like(usual.inputs[..., 2:], both)], -1)
        )

    return {
        "120 steps": other(steps=120),
        "more noise": other(noise=0.3),
        "small means": other(mean=0.1),
        "large means": other(mean=0.4),
        "context 0.8": replace(usual, inputs=usual.inputs * [1, 1, 0.8, 0.8]),
        "no context": told(0),
        "both contexts": told(1),
    }


def _unanswered(trials: ts.Trials, inputs: np.ndarray) -> ts.Trials:
    return ts.Trials(inputs, np.zeros_like(trials.targets), trials.mask)


OTHERS = {"copy-dense-orthogonal": _copy, "flip-flop": _flip_flop, "sine": _sine, "context-integration": _context}


def main() -> None:
    table = _table.compute(measure, [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS])
    names = {family: list(conditions(family, 1)) for family in FAMILIES}
    _table.write("off_distribution", table, FAMILIES, trials=TRIALS, orders=len(ORDERS), conditions=names)


if __name__ == "__main__":
    main()
