"""What every cut of the spectrum between α = 0.3 and α = 1.1 gives, and what a small change of W does to it.

python book/studies/threshold.py writes threshold.csv, a row a network and rank, and threshold-pushes.csv, a row a
network, α and size of the change, with their provenance, in about ten minutes of one core.
"""

from __future__ import annotations

from collections.abc import Iterable

import _table
import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

import tasksym as ts

FAMILIES = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # those that have couplings
LOW, HIGH = 0.3, 1.1
TRIALS = 512

ALPHAS = tuple(round(LOW + 0.1 * step, 1) for step in range(9))
JUMPS = (1e-4, 1e-3, 1e-2)  # how far above the largest modulus of the complement at α = 0.9 other α are
PUSHES = (1e-4, 1e-3, 1e-2)  # spectral norm of a change, as a share of that of W
DRAWS = 4
PUSHED_TRIALS = 128


def plateaus(schur: ts.OrderedSchur) -> list[tuple[float, float]]:
    """(low, high) of every interval of [LOW, HIGH] that no modulus divides: all α in it give one rank.

    The ends are moduli, or 0 and infinity, and may lie outside of [LOW, HIGH]. Moduli that tie are not parted.
    """
    highs = np.minimum.accumulate(np.concatenate([[np.inf], schur.moduli]))
    lows = np.maximum.accumulate(np.concatenate([schur.moduli, [0.0]])[::-1])[::-1]
    wide = (highs - lows > 2 * schur.tolerance) & (lows < HIGH) & (highs > LOW)
    return list(zip(lows[wide].tolist(), highs[wide].tolist(), strict=True))


def measure(family: str, seed: int, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """One network, split in the middle of every plateau (or of those of some ranks), without RR, CR or CC.

    A coupling whose mass is no more than rounding has no ΔFVU and no score.
    """
    solutions = ts.reference(family).of([seed])
    trials = solutions.recipe.evaluation_trials(TRIALS)
    schur, rows = ts.ordered_schur(solutions.weights.W_hh[0]), []
    (fvu,), (score,) = ts.evaluate(solutions, 0, [schur.W], trials)
    for low, high in plateaus(schur):
        sectors = _split(schur, (max(low, LOW) + min(high, HIGH)) / 2)
        if ranks is None or sectors.rank in ranks:
            row = {"family": family, "seed": seed, "rank": sectors.rank, "low": low, "high": high}
            row |= {"margin": sectors.margin, "fvu": fvu, "score": score}
            rows.append(row | _removed(solutions, sectors, fvu, trials))
    return pd.DataFrame(rows)


def pushed(family: str, seed: int, pushes: Iterable[float] = PUSHES, draws: int = DRAWS) -> pd.DataFrame:
    """One network split at `ALPHAS` and at α near a jump of the rank, and what changes of W_hh do to that.

    Returns
    -------
    DataFrame
        One row an α and size of the change, with the columns jump, how far α is above the jump, NaN for `ALPHAS`; rank
        and margin without a change; aimed, whether a change in the worst direction moves the rank; draws, how many
        random changes were tried; other, after how many the rank was another; traded, after how many of the rest
        blocks stood in another order; words_same and words_other, after how many with the same rank, and with
        another, an effect word was another. Then the largest change of ΔFVU(CR), and of ΔFVU(RR) and ΔFVU(CC): over
        draws with the same rank and order, CR_same and rest_same; with blocks in another order, CR_traded and
        rest_traded; with another rank, CR_other and rest_other. NaN if there were no such draws.
    """
    solutions = ts.reference(family).of([seed])
    trials = solutions.recipe.evaluation_trials(PUSHED_TRIALS)
    schur = ts.ordered_schur(solutions.weights.W_hh[0])
    below = schur.moduli[schur.moduli < 0.9].max()
    alphas = {alpha: np.nan for alpha in ALPHAS} | {below + jump: jump for jump in JUMPS}
    before, rows = _by_alpha(solutions, schur, trials, alphas), []
    worst = {alpha: worst_directions(schur, alpha) for alpha in alphas}
    for push in pushes:
        cases = []
        for draw in range(draws):
            other = ts.ordered_schur(schur.W + change(schur.W, push, np.random.default_rng((seed, draw))))
            kept, after = _same_order(schur, other), _by_alpha(solutions, other, trials, alphas)
            cases += [_case(alpha, before[alpha], after[alpha], kept) for alpha in alphas]
        cases = pd.DataFrame(cases)
        for alpha, jump in alphas.items():
            row = {"family": family, "seed": seed, "alpha": alpha, "jump": jump, "push": push}
            row |= {
                "rank": before[alpha][0],
                "margin": schur.margin(alpha),
                "aimed": _crosses(schur.W, alpha, push, worst[alpha]),
            }
            rows.append(row | _counted(cases[cases["alpha"] == alpha]))
    return pd.DataFrame(rows)


def change(W: np.ndarray, push: float, rng: np.random.Generator) -> np.ndarray:
    """A Gaussian matrix with a spectral norm of `push` times that of W."""
    E = rng.normal(size=W.shape)
    return push * np.linalg.norm(W, 2) / np.linalg.norm(E, 2) * E


def worst_directions(schur: ts.OrderedSchur, alpha: float, angles: int = 16) -> list[np.ndarray]:
    """Real matrices of spectral norm one along which an eigenvalue soon crosses the circle |z| = alpha.

    zI − W has its least singular value σ, over the circle, with the vectors u and v; W + σ u vᴴ has the eigenvalue z.
    These are the real and the imaginary part of u vᴴ, each with both signs.
    """
    close = np.argsort(np.abs(schur.moduli - alpha))[:8]
    theta = np.concatenate([np.linspace(0, np.pi, angles), np.angle(schur.eigenvalues[close])])
    shifted = alpha * np.exp(1j * theta)[:, None, None] * np.eye(len(schur.T)) - schur.T
    U, _, Vh = np.linalg.svd(shifted[np.linalg.svd(shifted, compute_uv=False)[:, -1].argmin()])
    nearest = schur.Q @ np.outer(U[:, -1], Vh[-1]) @ schur.Q.T
    parts = [part for part in (nearest.real, nearest.imag) if np.linalg.norm(part, 2) > 1e-8]
    return [sign * part / np.linalg.norm(part, 2) for part in parts for sign in (1, -1)]


def _crosses(W: np.ndarray, alpha: float, push: float, directions: list[np.ndarray]) -> bool:
    """Whether a change of that size in one of the directions moves the number of eigenvalues beyond alpha."""
    size = push * np.linalg.norm(W, 2)
    moduli = np.abs(np.linalg.eigvals([W, *(W + size * E for E in directions)]))
    beyond = (moduli >= alpha).sum(axis=1)
    return bool((beyond[1:] != beyond[0]).any())


def _same_order(one: ts.OrderedSchur, other: ts.OrderedSchur) -> bool:
    """Whether matched eigenvalues stand in the same places."""
    if len(one.blocks) != len(other.blocks):
        return False
    places = linear_sum_assignment(np.abs(one.eigenvalues[:, None] - other.eigenvalues))[1]
    return bool((places == np.arange(len(places))).all())


def _case(alpha, before, after, kept: bool) -> dict:
    """What one random change does at one α; a split is (rank, ΔFVU, words)."""
    (old_rank, old_rise, old_words), (rank, rise, words) = before, after
    kind = "other" if rank != old_rank else "same" if kept else "traded"
    moved = dict(zip(ts.COUPLINGS, np.abs(rise - old_rise), strict=True))
    rest = max(moved["RR"], moved["CC"])
    return {"alpha": alpha, "kind": kind, "word": words != old_words, "CR": moved["CR"], "rest": rest}


def _counted(cases: pd.DataFrame) -> dict:
    kinds = {kind: cases[cases["kind"] == kind] for kind in ("same", "traded", "other")}
    row = {"draws": len(cases), "other": len(kinds["other"]), "traded": len(kinds["traded"])}
    row |= {"words_same": kinds["same"]["word"].sum() + kinds["traded"]["word"].sum()}
    row |= {"words_other": kinds["other"]["word"].sum()}
    return row | {f"{part}_{kind}": rows[part].max() for kind, rows in kinds.items() for part in ("CR", "rest")}


def _split(schur: ts.OrderedSchur, alpha: float) -> ts.Sectors:
    """`schur.sectors(alpha)` without its warning, whose margin takes longer to find than all the rest."""
    leading = schur.moduli >= alpha - schur.tolerance
    return ts.Sectors(schur, alpha, sum(size for (_, size), leads in zip(schur.blocks, leading, strict=True) if leads))


def _removed(solutions, sectors, fvu, trials) -> dict[str, float]:
    """Mass, ΔFVU and score of every coupling, under names such as mass_RR."""
    there = [name for name in ts.COUPLINGS if sectors.mass[name] > sectors.mass_floor]
    error, score = ts.evaluate(solutions, 0, map(sectors.ablate, there), trials) if there else ([], [])
    rise, kept = dict(zip(there, np.subtract(error, fvu), strict=True)), dict(zip(there, score, strict=True))
    row = {f"mass_{name}": sectors.mass[name] for name in ts.COUPLINGS}
    row |= {f"delta_fvu_{name}": rise.get(name, np.nan) for name in ts.COUPLINGS}
    return row | {f"score_{name}": kept.get(name, np.nan) for name in ts.COUPLINGS}


def _by_alpha(solutions, schur, trials, alphas) -> dict[float, tuple[int, np.ndarray, tuple[str, ...]]]:
    """Rank, ΔFVU (coupling,) and effect words at every α; every rank is computed once."""
    (fvu,), (score,) = ts.evaluate(solutions, 0, [schur.W], trials)
    done, results = {}, {}
    for alpha in alphas:
        sectors = _split(schur, alpha)
        if sectors.rank not in done:
            row = _removed(solutions, sectors, fvu, trials)
            rise, kept = (np.array([row[f"{part}_{c}"] for c in ts.COUPLINGS]) for part in ("delta_fvu", "score"))
            words = ts.effect(fvu + rise, kept, fvu, score, ~np.isnan(rise))
            done[sectors.rank] = sectors.rank, np.nan_to_num(rise), tuple(words.tolist())
        results[alpha] = done[sectors.rank]
    return results


def main() -> None:
    jobs = [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS]
    _table.write("threshold", _table.compute(measure, jobs), FAMILIES, trials=TRIALS, interval=[LOW, HIGH])
    table = _table.compute(pushed, jobs)
    _table.write("threshold-pushes", table, FAMILIES, trials=PUSHED_TRIALS, draws=DRAWS, pushes=PUSHES)


if __name__ == "__main__":
    main()
