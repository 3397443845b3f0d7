"""Every coupling of every reference network against 1,000 random removals of its size, under both nulls.

python book/studies/nulls.py writes nulls.csv and nulls.json, in about an hour of one core.
"""

from __future__ import annotations

import _table
import pandas as pd

import tasksym as ts

FAMILIES = list(ts.RECIPES)
TRIALS = 256
DRAWS = 1000


def measure(family: str, seed: int, kinds=tuple(ts.NULLS)) -> pd.DataFrame:
    """`ts.size_matched` of one network."""
    solutions = ts.reference(family).of([seed])
    trials = solutions.recipe.evaluation_trials(TRIALS)
    return ts.size_matched(solutions, kinds, trials=trials, draws=DRAWS, progress=False).assign(family=family)


def main() -> None:
    table = _table.compute(measure, [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS])
    _table.write("nulls", table, FAMILIES, draws=DRAWS, trials=TRIALS)


if __name__ == "__main__":
    main()
