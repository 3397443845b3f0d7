"""What an encoder that was trained again can mend, where it writes, and whether it could mend any matrix.

python book/studies/encoders.py writes encoders.csv and encoders.json, in about half an hour of one core.
"""

from __future__ import annotations

import warnings

import _table
import pandas as pd
import torch

import tasksym as ts
from tasksym.readout import FIT_SEED

FAMILIES = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # those that have couplings
TRIALS = 256
UNTRAINED = "untrained"  # in place of W_hh, the matrix that training started from
CASES = ("", "CR", "RR+CR+CC", UNTRAINED)
COLUMNS = ["family", "seed", "case", "fvu", "refit", "score", "share_before", "share", "moved"]


def measure(family: str, seed: int, cases=CASES) -> pd.DataFrame:
    """FVU before the encoder is trained again and FVU and score after; its share in R before and after; its move."""
    solutions = ts.reference(family).of([seed])
    task, trials = solutions.recipe.task, solutions.recipe.evaluation_trials(TRIALS)
    fit = task.sample(TRIALS, rng=FIT_SEED)
    start = ts.starting_networks(solutions.recipe, [seed]).W_hh[0].double().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks
        sectors = ts.ordered_schur(solutions.weights.W_hh[0]).sectors()
    leading, rows = torch.from_numpy(sectors.basis("R")), []
    for case in cases:
        W = start if case == UNTRAINED else sectors.ablate(case)
        old = solutions.weights.variants(0, W[None])
        new = ts.refit_encoder(old, fit)
        before, after = (each.outputs(trials.inputs).numpy() for each in (old, new))
        fvu = [ts.fvu(outputs, trials)[0] for outputs in (before, after)]
        shares = [((leading.mT @ each.W_xh[0]).norm() / each.W_xh.norm()).item() ** 2 for each in (old, new)]
        moved = ((new.W_xh - old.W_xh).norm() / old.W_xh.norm()).item()
        rows.append((family, seed, case, *fvu, task.score(after, trials)[0], *shares, moved))
    return pd.DataFrame(rows, columns=COLUMNS)


def main() -> None:
    table = _table.compute(measure, [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS])
    _table.write("encoders", table, FAMILIES, trials=TRIALS)


if __name__ == "__main__":
    main()
