"""What every ablation costs once the decoder, the encoder or the norm of W has been put right.

python book/studies/repairs.py writes repairs.csv and repairs.json, in about half an hour of one core.
"""

from __future__ import annotations

import _table
import pandas as pd

import tasksym as ts

FAMILIES = list(ts.RECIPES)
TRIALS = 256


def measure(family: str, seed: int, kinds=ts.REPAIRS) -> pd.DataFrame:
    """`ts.repairs` of one network."""
    solutions = ts.reference(family).of([seed])
    trials = solutions.recipe.evaluation_trials(TRIALS)
    return ts.repairs(solutions, trials, kinds=kinds, progress=False).assign(family=family)


def main() -> None:
    table = _table.compute(measure, [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS])
    _table.write("repairs", table, FAMILIES, trials=TRIALS)


if __name__ == "__main__":
    main()
