"""What a trained network loses when couplings of its recurrent matrix are removed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

import numpy as np
import pandas as pd

from tasksym.metrics import fvu, normalised_sensitivity
from tasksym.schur import OrderedSchur, ordered_schur
from tasksym.sectors import COUPLINGS, SETS, Sectors
from tasksym.training import Solutions
from tasksym.trials import Trials

TOGETHER = 8  # matrices that are judged at a time: the sets of a profile
DOSES = tuple(round(0.1 * step, 1) for step in range(11))


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
    trials = trials_of(solutions, trials)
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


def dose_response(
    solutions: Solutions,
    doses: Iterable[float] = DOSES,
    trials: Trials | None = None,
    alpha: float = 0.9,
) -> pd.DataFrame:
    """Remove a growing share of each coupling, so that couplings of unlike mass can be compared at equal mass.

    Parameters
    ----------
    solutions : Solutions
    doses : iterable of float
        Shares in [0, 1].
    trials, alpha
        As for `ablation_profile`.

    Returns
    -------
    DataFrame
        One row a network, coupling and dose, with the columns seed, couplings, dose, mass (of what is removed), fvu,
        delta_fvu and score. A coupling whose mass is no more than rounding has no rows.
    """
    trials, doses, rows = trials_of(solutions, trials), list(doses), []
    for network, seed in enumerate(solutions.seeds):
        sectors = ordered_schur(solutions.weights.W_hh[network]).sectors(alpha)
        there = [coupling for coupling in COUPLINGS if sectors.mass[coupling] > sectors.mass_floor]
        steps = [(coupling, dose) for coupling in there for dose in doses]
        matrices = chain([sectors.schur.W], (sectors.ablate(coupling, dose) for coupling, dose in steps))
        error, score = evaluate(solutions, network, matrices, trials)
        for (coupling, dose), fvu_after, score_after in zip(steps, error[1:], score[1:], strict=True):
            mass = dose * sectors.mass[coupling]
            rows.append((seed, coupling, dose, mass, fvu_after, fvu_after - error[0], score_after))
    return _table(rows, ["seed", "couplings", "dose", "mass", "fvu", "delta_fvu", "score"])


def order_range(
    solutions: Solutions,
    orders: Iterable[int] = range(51),
    trials: Trials | None = None,
    alpha: float = 0.9,
) -> pd.DataFrame:
    """Ablate in other admissible orders of the blocks, on which T_RR and T_CC depend and T_CR does not.

    Parameters
    ----------
    solutions : Solutions
    orders : iterable of int
        Numbers of orders: 0 is the one by modulus, k > 0 the k-th random one of a network, drawn from (k, seed).
    trials, alpha
        As for `ablation_profile`.

    Returns
    -------
    DataFrame
        One row a network, order and coupling, with the columns seed, order, couplings, mass, delta_fvu and score. A
        coupling whose mass is no more than rounding has no rows.
    """
    trials, orders, rows = trials_of(solutions, trials), list(orders), []
    for network, seed in enumerate(solutions.seeds):
        schur = ordered_schur(solutions.weights.W_hh[network])
        splits = {order: _in_order(schur, order, seed, alpha) for order in orders}
        steps = [
            (order, coupling)
            for order, sectors in splits.items()
            for coupling in COUPLINGS
            if sectors.mass[coupling] > sectors.mass_floor
        ]
        matrices = chain([schur.W], (splits[order].ablate(coupling) for order, coupling in steps))
        error, score = evaluate(solutions, network, matrices, trials)
        for (order, coupling), fvu_after, score_after in zip(steps, error[1:], score[1:], strict=True):
            mass = splits[order].mass[coupling]
            rows.append((seed, order, coupling, mass, fvu_after - error[0], score_after))
    return _table(rows, ["seed", "order", "couplings", "mass", "delta_fvu", "score"])


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


def trials_of(solutions: Solutions, trials: Trials | None) -> Trials:
    """`trials`, or the recipe's 512 evaluation trials if there are none."""
    trials = solutions.recipe.evaluation_trials() if trials is None else trials
    if not isinstance(trials, Trials):
        raise TypeError(f"trials must be Trials, such as recipe.evaluation_trials(512); got {trials!r}")
    return trials


def _table(rows: list[tuple], columns: list[str]) -> pd.DataFrame:
    """Rows with the types that they have when there are some."""
    kinds = {"seed": int, "order": int, "couplings": str}
    return pd.DataFrame(rows, columns=columns).astype({column: kinds.get(column, float) for column in columns})


def _in_order(schur: OrderedSchur, order: int, seed: int, alpha: float) -> Sectors:
    if order:
        schur = schur.reordered(schur.admissible_order(np.random.default_rng((order, seed)), alpha))
    return schur.sectors(alpha)
