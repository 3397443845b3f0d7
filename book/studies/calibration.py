"""Are the p-values of the equal-mass null honest? Pseudo-couplings, drawn from the null itself, are put to its test.

python book/studies/calibration.py writes calibration.csv and calibration.json, in about twenty minutes of one core.
"""

from __future__ import annotations

import _table
import numpy as np
import pandas as pd

import tasksym as ts

FAMILIES = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # those that have couplings
TRIALS = 128
DRAWS = 199
PSEUDO = 3  # for every coupling, of its mass


def measure(family: str, seed: int) -> pd.DataFrame:
    """p of pseudo-couplings of one network; each meets draws of its own."""
    solutions = ts.reference(family).of([seed])
    trials = solutions.recipe.evaluation_trials(TRIALS)
    sectors, rows = ts.ordered_schur(solutions.weights.W_hh[0]).sectors(), []
    for place, coupling in enumerate(ts.COUPLINGS):
        for pseudo in range(PSEUDO if sectors.mass[coupling] > sectors.mass_floor else 0):
            rng = np.random.default_rng((1, seed, place, pseudo))
            drawn = ts.null_distribution(solutions, 0, coupling, trials=trials, draws=DRAWS + 1, rng=rng)["delta_fvu"]
            rows.append((family, seed, coupling, pseudo, drawn[0], ts.p_value(drawn[0], drawn[1:])))
    return pd.DataFrame(rows, columns=["family", "seed", "couplings", "pseudo", "delta_fvu", "p"])


def main() -> None:
    table = _table.compute(measure, [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS])
    _table.write("calibration", table, FAMILIES, draws=DRAWS, trials=TRIALS)


if __name__ == "__main__":
    main()
