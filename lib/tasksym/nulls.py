"""Is a coupling small, or special? Random removals of the same size, p-values, and verdicts of two words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import scipy.stats
from tqdm import tqdm

from tasksym import _checks
from tasksym.ablation import evaluate, trials_of
from tasksym.metrics import effect
from tasksym.schur import ordered_schur
from tasksym.sectors import COUPLINGS, Sectors
from tasksym.training import Solutions
from tasksym.trials import Trials

DRAWS = 1000
PRIMARY = "equal mass"  # the null that the second word of a verdict is about
RELATIVES = ("below chance", "as chance", "above chance")
TIE = 1e-9  # relative difference below which two ΔFVU count as equal: a draw may be the very ablation that is judged


def equal_mass(
    sectors: Sectors, coupling: str, draws: int, rng: np.random.Generator
) -> tuple[Iterator[np.ndarray], np.ndarray]:
    """Remove random entries of N, the last one in part, to exactly the mass of a coupling.

    Returns
    -------
    matrices : iterator of array (n, n)
        Distinct ablated W, made one at a time.
    which : array (draw,)
        The matrix of every draw.
    """
    rows, columns = _entries(sectors)
    entries = sectors.coupling[rows, columns]
    mass = sectors.removed_mass(coupling)

    def removed() -> Iterator[np.ndarray]:
        for _ in range(draws):
            order = rng.permutation(len(entries))
            before = np.concatenate([[0.0], np.cumsum(entries[order] ** 2)[:-1]])  # squared mass before each entry
            left = np.sqrt(np.clip(mass**2 - before, 0, None))
            taken = np.sign(entries[order]) * np.minimum(np.abs(entries[order]), left)
            removed = np.zeros_like(sectors.coupling)
            removed[rows[order], columns[order]] = taken
            yield sectors.schur.W - sectors.schur.Q @ removed @ sectors.schur.Q.T

    return removed(), np.arange(draws)


def equal_dimension(
    sectors: Sectors, coupling: str, draws: int, rng: np.random.Generator
) -> tuple[Iterator[np.ndarray], np.ndarray]:
    """Put a random invariant subspace of the same dimension in place of the leading one, and remove its coupling.

    The subspaces are spanned by blocks, no pair is split, and what does not lead keeps its order. Where the leading
    sector is small there are few of them, and draws repeat.

    Returns
    -------
    matrices, which
        As for `equal_mass`.
    """
    sizes = [size for _, size in sectors.schur.blocks]
    numbers: dict[tuple[int, ...], int] = {}
    which = [numbers.setdefault(_blocks_of(sizes, sectors.rank, rng), len(numbers)) for _ in range(draws)]

    def removed() -> Iterator[np.ndarray]:
        for leading in numbers:
            others = [block for block in range(len(sizes)) if block not in leading]
            schur = sectors.schur.reordered([*leading, *others])
            yield Sectors(schur, sectors.alpha, sectors.rank).ablate(coupling)

    return removed(), np.array(which)


NULLS = {"equal mass": equal_mass, "equal dimension": equal_dimension}


def null_distribution(
    solutions: Solutions,
    network: int,
    coupling: str,
    null: str = PRIMARY,
    *,
    trials: Trials | None = None,
    alpha: float = 0.9,
    draws: int = DRAWS,
    rng=0,
    bar: tqdm | None = None,
) -> pd.DataFrame:
    """What random removals cost that match a coupling of one network in size.

    Parameters
    ----------
    solutions : Solutions
    network : int
        Which of them.
    coupling : str
        "RR", "CR", "CC", or a set of them.
    null : str
        A name in `NULLS`.
    trials, alpha
        As for `ablation_profile`.
    draws : int
    rng : int or numpy Generator
    bar : tqdm, optional
        Progress bar to move on by `draws` steps.

    Returns
    -------
    DataFrame
        One row a draw, with the columns delta_fvu, delta_score and effect (the word of `effect`).

    Raises
    ------
    ValueError, TypeError
        If the null or the coupling is unknown, or a setting is out of range.
    """
    _known(null)
    draws, rng = _checks.count("draws", draws), _checks.generator(rng)
    sectors = ordered_schur(solutions.weights.W_hh[network]).sectors(alpha)
    matrices, which = NULLS[null](sectors, coupling, draws, rng)
    done = np.bincount(which)  # draws that a matrix stands for
    watched = _watched(matrices, done, bar) if bar is not None else matrices
    trials = trials_of(solutions, trials)
    (whole_fvu,), (whole_score,) = evaluate(solutions, network, [sectors.schur.W], trials)
    fvu, score = (values[which] for values in evaluate(solutions, network, watched, trials))
    words = effect(fvu, score, whole_fvu, whole_score)
    return pd.DataFrame({"delta_fvu": fvu - whole_fvu, "delta_score": score - whole_score, "effect": words})


def size_matched(
    solutions: Solutions,
    nulls: Iterable[str] = tuple(NULLS),
    *,
    trials: Trials | None = None,
    alpha: float = 0.9,
    draws: int = DRAWS,
    rng: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """Compare what each coupling costs with what random removals of its size cost.

    A draw is judged by the same trials as the coupling. Memory does not grow with the number of draws.

    Parameters
    ----------
    solutions : Solutions
    nulls : iterable of str
        Names in `NULLS`.
    trials, alpha
        As for `ablation_profile`.
    draws : int
        Random removals for each network, coupling and null. The least p is 2 / (1 + draws).
    rng : int
        Seed. The draws of a network follow from it, the network's own seed and the coupling.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    DataFrame
        One row a network, coupling and null, with the columns seed, couplings, null; mass; fvu, delta_fvu, score and
        delta_score of the coupling's removal; low, median and high (5th, 50th and 95th percentile of the draws'
        ΔFVU); harmless and destructive, the shares of draws with these effects; percentile of the coupling's ΔFVU
        among the draws', in [0, 1]; p of it, as `p_value`. Where the mass is no more than rounding, the last seven are
        NaN.

    Raises
    ------
    ValueError, TypeError
        If a null is unknown, or a setting is out of range.
    """
    trials, rng = trials_of(solutions, trials), _checks.count("rng", rng, minimum=0)
    nulls, draws, rows = list(nulls), _checks.count("draws", draws), []
    for null in nulls:
        _known(null)
    splits = [ordered_schur(W).sectors(alpha) for W in solutions.weights.W_hh]
    there = sum(mass > split.mass_floor for split in splits for mass in split.mass.values())
    switch = {} if progress else {"disable": True}  # absent, so that TQDM_DISABLE keeps its say
    with tqdm(total=there * len(nulls) * draws, unit="draw", leave=False, **switch) as bar:
        for network, (seed, sectors) in enumerate(zip(solutions.seeds, splits, strict=True)):
            matrices = [sectors.ablate(coupling) for coupling in ("", *COUPLINGS)]
            error, score = evaluate(solutions, network, matrices, trials)
            for place, coupling in enumerate(COUPLINGS, start=1):
                found = (error[place], error[place] - error[0], score[place], score[place] - score[0])
                for null in nulls:
                    spread = (np.nan,) * 7
                    if sectors.mass[coupling] > sectors.mass_floor:
                        stream = np.random.default_rng((rng, seed, place))
                        drawn = null_distribution(
                            solutions, network, coupling, null,
                            trials=trials, alpha=alpha, draws=draws, rng=stream, bar=bar,
                        )  # fmt: skip
                        costs, words = drawn["delta_fvu"].to_numpy(), drawn["effect"]
                        shares = [(words == word).mean() for word in ("harmless", "destructive")]
                        spread = (*np.quantile(costs, (0.05, 0.5, 0.95)), *shares, *_place(found[1], costs))
                    rows.append((seed, coupling, null, sectors.mass[coupling], *found, *spread))
    of_coupling = ["seed", "couplings", "null", "mass", "fvu", "delta_fvu", "score", "delta_score"]
    of_draws = ["low", "median", "high", "harmless", "destructive", "percentile", "p"]
    return pd.DataFrame(rows, columns=[*of_coupling, *of_draws])


def p_value(observed: float, drawn) -> float:
    """Two-sided p of a statistic among draws from its null.

    Parameters
    ----------
    observed : float
    drawn : array (draw,)

    Returns
    -------
    float
        Twice the smaller of (1 + k) / (1 + draws), where k counts the draws at most as large, or those at least as
        large; 1 at most. Draws that differ from `observed` by rounding count on both sides.

    References
    ----------
    Phipson and Smyth, Permutation P-values Should Never Be Zero, 2010, for the two ones.
    """
    return _place(observed, np.asarray(drawn, dtype=float))[1]


def verdicts(table: pd.DataFrame, level: float = 0.05) -> pd.DataFrame:
    """Two words for every row of `size_matched`: what the removal does, and how that compares with chance.

    The rows of a null are one family of tests: concatenate the tables of all networks that are judged together first.

    Parameters
    ----------
    table : DataFrame
        As `size_matched` returns it.
    level : float
        False discovery rate of Benjamini and Hochberg.

    Returns
    -------
    DataFrame
        The table with the columns effect (see `effect`); p_adjusted; and relative: "below chance" or "above chance"
        where p_adjusted is at most `level`, "as chance" where it is not, "" where the coupling is absent. The verdict
        is that of the rows whose null is `PRIMARY`.

    References
    ----------
    Benjamini and Hochberg, Controlling the False Discovery Rate, 1995.
    """
    level = _checks.number("level", level, 0, 1, open_low=True)
    table = table.reset_index(drop=True)
    there = table["p"].notna()
    whole_fvu, whole_score = table["fvu"] - table["delta_fvu"], table["score"] - table["delta_score"]
    table["effect"] = effect(table["fvu"], table["score"], whole_fvu, whole_score, there)
    table["p_adjusted"] = table[there].groupby("null")["p"].transform(scipy.stats.false_discovery_control)
    far = table["p_adjusted"] <= level
    side = np.where(table["percentile"] < 0.5, "below chance", "above chance")
    table["relative"] = np.where(there, np.where(far, side, "as chance"), "")
    return table


def _known(null: str) -> None:
    if null not in NULLS:
        raise ValueError(f"null must be one of {', '.join(map(repr, NULLS))}, got {null!r}")


def _place(observed: float, drawn: np.ndarray) -> tuple[float, float]:
    """Percentile and p of `observed` among the draws."""
    tie = np.abs(drawn - observed) <= TIE * np.abs(observed)
    below, above = ((drawn < observed) & ~tie).sum(), ((drawn > observed) & ~tie).sum()
    p = 2 * (1 + tie.sum() + min(below, above)) / (1 + len(drawn))
    return float((below + tie.sum() / 2) / len(drawn)), float(min(1.0, p))


def _entries(sectors: Sectors) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of N's entries, in an order that networks share whose hidden units are permuted or mirrored.

    LAPACK may turn the plane of a pair by a quarter. So the axis with the larger entry of its block comes first.
    """
    T, axes, block = sectors.schur.T, np.arange(len(sectors.schur.T)), np.zeros(len(sectors.schur.T), dtype=int)
    for number, (start, size) in enumerate(sectors.schur.blocks):
        block[start : start + size] = number
        if size == 2 and abs(T[start, start + 1]) < abs(T[start + 1, start]):
            axes[start : start + 2] = start + 1, start
    rows, columns = np.nonzero(block[:, None] < block)
    return axes[rows], axes[columns]


def _blocks_of(sizes: list[int], rank: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Random blocks, in rising order, that span `rank` dimensions; a pair that would be split is passed over."""
    while True:
        left, chosen = rank, []
        for block in rng.permutation(len(sizes)).tolist():
            if sizes[block] <= left:
                chosen.append(block)
                left -= sizes[block]
        if left == 0:  # else real blocks ran out, and one dimension is left: draw again
            return tuple(sorted(chosen))


def _watched(matrices: Iterator[np.ndarray], done: np.ndarray, bar: tqdm) -> Iterator[np.ndarray]:
    for matrix, draws in zip(matrices, done, strict=True):
        yield matrix
        bar.update(draws)
