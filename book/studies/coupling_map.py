"""What each block coupling does alone, and what could have foretold it: summaries of the maps of 64 networks.

python book/studies/coupling_map.py writes coupling_map.csv and coupling_map.json, in a quarter of an hour on one core.
"""

from __future__ import annotations

import warnings

import _table
import numpy as np
import pandas as pd
from _derivatives import along, curvature, gradient, noise_gradients
from _derivatives import by_recurrent as by_recurrent  # for the page
from _derivatives import variance as variance
from scipy.stats import spearmanr

import tasksym as ts

FAMILIES = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # those that have couplings
TRIALS = 128  # to measure and predict by; as many others judge what is cut
SECOND_ORDER = [("copy-dense-orthogonal", 100), ("flip-flop", 100), ("sine", 100), ("context-integration", 100)]
STEPS = 40  # shares of the block couplings that are cut
RISE = 0.01  # of the FVU that a cut may cost
FEW = 10  # fewer block couplings have no rank correlation
COLUMNS = [
    "family", "seed", "order", "part",
    "count", "mass", "whole", "joint", "total", "curvature", "worst", "half", "half_mass", "harmless",
    "helpful", "helpful_total", "helpful_whole",
    "rank_mass", "rank_signed", "rank_gradient", "rank_curvature", "rank_second", "rank_noise",
    "error_first", "error_second",
    "cut_random", "cut_mass", "cut_gradient", "cut_curvature", "cut_effect", "cut_together",
    "bend_mass", "bend_curvature", "bend_effect", "bend_together",
    "mass_together", "score_together",
]  # fmt: skip


def block_couplings(sectors: ts.Sectors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every pair of diagonal blocks, the target above the source, and what its removal subtracts from W.

    Returns
    -------
    places : array (pair, 2)
        Numbers of the target block and of the source block.
    parts : array of str (pair,)
        The sector coupling that it belongs to.
    removals : array (pair, n, n)
        K = Q_i T_ij Q_jᵀ. It depends on the order of the blocks, not on signs of Q or axes in the plane of a pair.
    """
    schur = sectors.schur
    block = np.repeat(np.arange(len(schur.blocks)), [size for _, size in schur.blocks])
    places = np.argwhere(np.triu(np.ones((len(schur.blocks),) * 2), 1))
    leads = np.array([start < sectors.rank for start, _ in schur.blocks])
    letter = np.where(leads, "R", "C")
    parts = np.char.add(letter[places[:, 1]], letter[places[:, 0]])
    removals = [
        schur.Q[:, block == i] @ schur.T[np.ix_(block == i, block == j)] @ schur.Q[:, block == j].T for i, j in places
    ]
    return places, parts, np.array(removals)


def one_by_one(slopes: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """An order of removal: always next the block coupling that is predicted to cost least after those before it.

    Parameters
    ----------
    slopes : array (pair,)
        First-order prediction for each alone.
    probes : array (trial, pair)
        `noise_gradients` along each; probesᵀ probes estimates the curvature and its cross terms.
    """
    cross = probes.T @ probes
    cost, order = slopes + cross.diagonal(), []
    for _ in range(len(cost)):
        order.append(int(np.argmin(cost)))
        cost = cost + 2 * cross[order[-1]]
        cost[order] = np.inf
    return np.array(order)


def cut(solutions, network, removals, order, trials) -> tuple[int, float]:
    """How many of an order, from its start, can be removed at RISE, on a grid of STEPS, and the score that is lost."""
    W = solutions.weights.W_hh[network].double().numpy()
    counts = np.unique(np.round(np.linspace(0, 1, STEPS + 1) * len(order)).astype(int))
    (whole,), (score,) = ts.evaluate(solutions, network, [W], trials)
    most, cost = 0, 0.0
    for some in np.array_split(counts[1:], 5):  # stop early
        fvu, scores = ts.evaluate(
            solutions, network, (W - removals[order[:count]].sum(axis=0) for count in some), trials
        )
        for place, count in enumerate(some):
            if fvu[place] > whole + RISE:
                return most, cost
            most, cost = int(count), float(score - scores[place])
    return most, cost


def measure(family: str, seed: int, order: int = 0, parts=ts.COUPLINGS) -> pd.DataFrame:
    """Summaries of the map of one network, a row a sector coupling; if all are asked for, of the whole map, too."""
    solutions = ts.reference(family).of([seed])
    trials, others = halves(solutions.recipe)
    schur = ts.ordered_schur(solutions.weights.W_hh[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks
        if order:
            schur = schur.reordered(schur.admissible_order(np.random.default_rng((order, seed))))
        sectors = schur.sectors()
    places, names, removals = block_couplings(sectors)
    asked = np.isin(names, parts)
    places, names, removals = places[asked], names[asked], removals[asked]
    fvu, score = ts.evaluate(solutions, 0, (schur.W - K for K in (0 * schur.W, *removals)), trials)
    probes = along(noise_gradients(solutions, 0, trials, np.random.default_rng(seed)), removals)
    pairs = pd.DataFrame(
        {
            "part": names,
            "mass": np.linalg.norm(removals, axis=(1, 2)),
            "modulus": np.sqrt(schur.moduli[places].prod(axis=1)),
            "effect": fvu[1:] - fvu[0],
            "harmless": ts.effect(fvu[1:], score[1:], fvu[0], score[0]) == "harmless",
            "slope": -along(gradient(solutions, 0, trials), removals),
            "curvature": curvature(solutions, 0, removals, trials),
            "noise": (probes**2).sum(axis=0),
        }
    )
    rows = []
    groups = {part: names == part for part in parts if (names == part).any()}
    if set(parts) == set(ts.COUPLINGS):
        groups |= {"all": np.full(len(names), True)} | strata(pairs)
    for part, chosen in groups.items():
        row = {"part": part} | summary(pairs[chosen])
        if part in ("all", *parts):
            everything = removals[chosen].sum(axis=0, keepdims=True)
            helpful = removals[chosen & (pairs["effect"] < 0)].sum(axis=0, keepdims=True)
            after, _ = ts.evaluate(solutions, 0, [schur.W - everything[0], schur.W - helpful[0]], trials)
            row["mass"] = np.linalg.norm(everything)
            row["whole"], row["helpful_whole"] = after - fvu[0]
            row["joint"] = pairs["slope"][chosen].sum() + curvature(solutions, 0, everything, trials)[0]
            if chosen.sum() >= FEW:
                row |= cuts(solutions, pairs[chosen], removals[chosen], probes[:, chosen], (trials, others), seed)
        rows.append(row)
    return pd.DataFrame(rows).assign(family=family, seed=seed, order=order).reindex(columns=COLUMNS)


def halves(recipe: ts.Recipe) -> list[ts.Trials]:
    """The evaluation trials as two halves: one to measure and predict by, one to judge what is cut."""
    whole = recipe.evaluation_trials(2 * TRIALS)
    parts = (slice(None, TRIALS), slice(TRIALS, None))
    return [ts.Trials(whole.inputs[:, part], whole.targets[:, part], whole.mask) for part in parts]


def strata(pairs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Thirds of the block couplings by mass and by modulus, and those that do harm alone."""
    found = {}
    for column, low, high in (("mass", "light", "heavy"), ("modulus", "fast", "slow")):
        third, two_thirds = np.quantile(pairs[column], [1 / 3, 2 / 3])
        found |= {low: (pairs[column] <= third).to_numpy(), high: (pairs[column] > two_thirds).to_numpy()}
    harmful = (pairs["effect"] > RISE).to_numpy()
    return found | ({"harmful": harmful} if harmful.any() else {})


def summary(pairs: pd.DataFrame) -> dict[str, float]:
    """Totals, concentration and how well each prediction ranks the effects of some block couplings."""
    effect, slope = pairs["effect"], pairs["slope"]
    size = effect.abs().sum()
    row = {
        "count": len(pairs),
        "total": effect.sum(),
        "curvature": pairs["curvature"].sum(),
        "half": carry_half(effect.clip(lower=0)),
        "half_mass": carry_half(pairs["mass"] ** 2),
        "harmless": pairs["harmless"].sum(),
        "worst": effect.max(),
        "helpful": (effect < 0).sum(),
        "helpful_total": effect.clip(upper=0).sum(),
        "error_first": (effect - slope).abs().sum() / size,
        "error_second": (effect - slope - pairs["curvature"]).abs().sum() / size,
    }
    predictions = {
        "mass": pairs["mass"],
        "signed": slope,
        "gradient": slope.abs(),
        "curvature": pairs["curvature"],
        "second": slope + pairs["curvature"],
        "noise": slope + pairs["noise"],
    }
    for name, prediction in predictions.items():
        row[f"rank_{name}"] = spearmanr(prediction, effect)[0] if len(pairs) >= FEW else np.nan
    return row


def carry_half(values) -> int:
    """How many of the largest values make half of the sum."""
    ordered = np.sort(values)[::-1]
    return int(np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)) + 1


def cuts(solutions, pairs, removals, probes, halves, seed) -> dict[str, float]:
    """What each order of removal cuts, as a share of the block couplings, and how it bends.

    bend is the curvature of the first quarter together, over the sum of their curvatures: 1 if they do not interact.
    """
    trials, others = halves
    orders = {
        "random": np.random.default_rng(seed).permutation(len(pairs)),
        "mass": np.argsort(pairs["mass"].to_numpy()),
        "gradient": np.argsort(pairs["slope"].abs().to_numpy()),
        "curvature": np.argsort(pairs["curvature"].to_numpy()),
        "effect": np.argsort(pairs["effect"].to_numpy()),
        "together": one_by_one(pairs["slope"].to_numpy(), probes),
    }
    row = {}
    for name, order in orders.items():
        most, cost = cut(solutions, 0, removals, order, others)
        row[f"cut_{name}"] = most / len(pairs)
        quarter = order[: len(order) // 4]
        both = curvature(solutions, 0, removals[quarter].sum(axis=0, keepdims=True), trials)[0]
        row[f"bend_{name}"] = both / pairs["curvature"].to_numpy()[quarter].sum()
    mass = np.linalg.norm(removals[order[:most]].sum(axis=0)) / np.linalg.norm(removals.sum(axis=0))
    return row | {"mass_together": mass, "score_together": cost}


def main() -> None:
    jobs = [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS]
    jobs += [(family, seed, 1) for family, seed in SECOND_ORDER]
    table = _table.compute(measure, jobs)
    _table.write("coupling_map", table, FAMILIES, trials=TRIALS, rise=RISE, steps=STEPS)


if __name__ == "__main__":
    main()
