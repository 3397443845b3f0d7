"""ΔFVU of every coupling over 51 orders of the Schur blocks, and in the mirrored form, for four families.

python book/studies/orders.py writes orders.csv and orders.json, in about a quarter of an hour on one core.
"""

from __future__ import annotations

import warnings

import _table
import numpy as np
import pandas as pd

import tasksym as ts

FAMILIES = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # those that have couplings
ORDERS = range(51)
TRIALS = 512
COLUMNS = ["family", "seed", "order", "couplings", "mass", "delta_fvu", "score"]


def measure(family: str, seed: int, orders=ORDERS) -> pd.DataFrame:
    """What one network loses without RR, CR or CC in some orders, and without RC in the mirrored form (order 0)."""
    solutions = ts.reference(family).of([seed])
    trials = solutions.recipe.evaluation_trials(TRIALS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks
        table = ts.order_range(solutions, orders, trials)
        mirrored = ts.ordered_schur(solutions.weights.W_hh[0]).sectors(mirrored=True)
    ablations = [mirrored.ablate(""), mirrored.ablate("RC")]
    fvu, score = ts.evaluate(solutions, 0, ablations, trials)
    table.loc[len(table)] = [seed, 0, "RC", mirrored.mass["RC"], fvu[1] - fvu[0], score[1]]
    return table.assign(family=family)[COLUMNS]


def main() -> None:
    table = _table.compute(measure, [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS])
    # C→R is the same in all orders: its rows but the first would be two fifths of the file.
    again = table["couplings"] == "CR"
    spread = table[again].groupby(["family", "seed"], sort=False)["delta_fvu"].agg(np.ptp)
    largest = {family: float(f"{spread[family].max():.1e}") for family in FAMILIES}
    table = table[~again | (table["order"] == 0)]
    _table.write("orders", table, FAMILIES, orders=len(ORDERS), trials=TRIALS, spread_of_CR=largest)


if __name__ == "__main__":
    main()
