"""What a trained network loses when couplings of its recurrent matrix are removed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
import pandas as pd

from tasksym.metrics import fvu, normalised_sensitivity
from tasksym.schur import SETS, ordered_schur
from tasksym.training import Solutions
from tasksym.trials import Trials

TOGETHER = 8  # matrices that are judged at a time: the sets of a profile


def ablation_profile(solutions: Solutions, trials: Trials | None = None, alpha: float = 0.9) -> pd.DataFrame:
    """Remove each of the eight sets of couplings from every network and measure what is left.

    Encoder and decoder stay fixed. Everything is computed in float64, so that ΔFVU is not rounding noise.

    Parameters
    ----------
    solutions : Solutions
    trials : Trials, optional
        Trials to judge by; the recipe's 512 evaluation trials if absent.
    alpha : float
        Least eigenvalue modulus of the leading sector.

    Returns
    -------
    DataFrame
        One row a network and set, with the columns seed; couplings (the set removed, "" for none); rank and gap of the
        split; mass ‖T − T̃‖_F; fvu; delta_fvu = fvu − fvu of the whole network; sensitivity = delta_fvu / mass, NaN
        where the mass is no more than rounding; score in [0, 1].

    Raises
    ------
    ValueError, TypeError
        If alpha is not a positive finite number, or the trials do not fit the networks.

    References
    ----------
    arXiv 2606.18457.
    """
    trials = solutions.recipe.evaluation_trials() if trials is None else trials
    if not isinstance(trials, Trials):
        raise TypeError(f"trials must be Trials, such as recipe.evaluation_trials(512); got {trials!r}")
    rows = []
    for network, seed in enumerate(solutions.seeds):
        sectors = ordered_schur(solutions.weights.W_hh[network]).sectors(alpha)
        error, score = evaluate(solutions, network, map(sectors.ablate, SETS), trials)
        rows.append(
            pd.DataFrame(
                {
                    "seed": seed,
                    "couplings": SETS,
                    "rank": sectors.rank,
                    "gap": sectors.gap,
                    "mass": [sectors.removed_mass(couplings) for couplings in SETS],
                    "fvu": error,
                    "score": score,
                    "mass_floor": sectors.mass_floor,
                }
            )
        )
    table = pd.concat(rows, ignore_index=True)
    table["delta_fvu"] = table["fvu"] - table.groupby("seed")["fvu"].transform("first")
    table["sensitivity"] = normalised_sensitivity(table["delta_fvu"], table["mass"], table["mass_floor"])
    return table[["seed", "couplings", "rank", "gap", "mass", "fvu", "delta_fvu", "sensitivity", "score"]]


def evaluate(
    solutions: Solutions, network: int, matrices: Iterable[np.ndarray], trials: Trials
) -> tuple[np.ndarray, np.ndarray]:
    """FVU and score of one network with other recurrent matrices in place of its own, in float64.

    Parameters
    ----------
    solutions : Solutions
    network : int
        Which of them keeps its encoder and decoder.
    matrices : iterable of array (hidden, hidden)
        Taken a few at a time, so that memory is bounded however many there are.
    trials : Trials

    Returns
    -------
    fvu, score : arrays (matrix,)
    """
    matrices, errors, scores = iter(matrices), [], []
    while few := list(islice(matrices, TOGETHER)):
        outputs = solutions.weights.variants(network, np.stack(few)).outputs(trials.inputs).numpy()
        errors.append(fvu(outputs, trials))
        scores.append(solutions.recipe.task.score(outputs, trials))
    return np.concatenate(errors), np.concatenate(scores)
