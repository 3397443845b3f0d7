"""In which directions outputs are sensitive to W_hh, and whether a first-order map foretells what cuts do.

python book/studies/bridge.py writes bridge.csv, bridge-entries.csv and bridge-blocks.csv, each with its provenance, in
a quarter of an hour on one core.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

import _table
import numpy as np
import pandas as pd
import torch
from _derivatives import along, curvature, gradient, output_jacobian, variance
from scipy.stats import ortho_group, rankdata, spearmanr

import tasksym as ts

FAMILIES = list(ts.RECIPES)
TRIALS = 128  # that judge what is cut
MAPPED = 16  # of these, for the Jacobian
DRAWS = 3  # of bases that are drawn
TOP = 0.01  # share of the directions whose part of the sum is asked for
MOST, DRAWN = 40, 80  # entries that are cut: those foretold to matter most, and a sample of all
OF_A_PART = 30  # entries of each Schur coupling
DOSES = (0.05, 0.1, 0.25, 0.5, 1.0)
DOSES_OF = {"Schur": len(DOSES), "PCA": 2, "elementary": 2}  # how many of the last; one in other bases
BASES = ["elementary", "random", "random 2", "Schur", "PCA"]  # whose entries and blocks are cut
CUT = [*BASES, "two-sided"]
KEPT = 0.2  # share of the entries that stay if all the others go at once
COLUMNS = ["family", "seed", "basis", "draw", "share", "directions", "ninety", "source", "target"]
ENTRY_COLUMNS = [
    "family", "seed", "basis", "part",
    "count", "diagonal", "harmless", "destructive", "largest",
    "rank_first", "rank_size", "rank_sensitivity", "rank_rise", "rank_square",
    "low", "ratio", "high", "compounded",
    "auc_first", "auc_size", "auc_rise", "missed", "missed_score", "alarms",
]  # fmt: skip
BLOCK_COLUMNS = [
    "family", "seed", "basis", "part", "dose",
    "mass", "slope", "first", "compounded", "change", "delta_fvu", "score", "effect",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Network:
    """One reference network and what its maps are made of."""

    solutions: ts.Solutions
    trials: ts.Trials

    @classmethod
    def of(cls, family: str, seed: int, *, start: bool = False) -> Network:
        solutions = ts.reference(family).of([seed])
        if start:
            solutions = replace(solutions, weights=ts.starting_networks(solutions.recipe, [seed]))
        return cls(solutions, solutions.recipe.evaluation_trials(TRIALS))

    @cached_property
    def sectors(self) -> ts.Sectors:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks; the page says so
            return ts.ordered_schur(self.solutions.weights.W_hh[0]).sectors()

    @property
    def W(self) -> np.ndarray:
        return self.sectors.schur.W

    @cached_property
    def jacobian(self) -> torch.Tensor:
        """∂f/∂W_hh (output, n, n) on the first `MAPPED` trials."""
        return output_jacobian(self.solutions, 0, some(self.trials, slice(MAPPED)))

    @cached_property
    def other_jacobian(self) -> torch.Tensor:
        """The same on as many other trials."""
        return output_jacobian(self.solutions, 0, some(self.trials, slice(MAPPED, 2 * MAPPED)))

    def states(self, inputs=None) -> np.ndarray:
        """All states (step and trial, n) on trials that the Jacobian has not seen, or on other inputs."""
        inputs = self.trials.inputs[:, MAPPED:] if inputs is None else inputs
        states, _ = self.solutions.weights.to(torch.float64).rollout(inputs)
        return states.reshape(-1, states.shape[-1]).numpy()


def some(trials: ts.Trials, part: slice) -> ts.Trials:
    """A part of the trials."""
    return ts.Trials(trials.inputs[:, part], trials.targets[:, part], trials.mask)


def sensitivity(jacobian: torch.Tensor, U: np.ndarray, V: np.ndarray | None = None) -> np.ndarray:
    """S_ij (n, n) in the directions u_i v_jᵀ: the root mean square of ∂f/∂c_ij over the outputs f."""
    U, V = (torch.from_numpy(np.ascontiguousarray(basis)) for basis in (U, U if V is None else V))
    squares = sum((U.T @ (few @ V)).square_().sum(dim=0) for few in jacobian.split(32))  # few stay in cache
    return (squares / len(jacobian)).sqrt_().numpy()


def principal(moment: np.ndarray) -> np.ndarray:
    """Eigenvectors (n, n) of a symmetric matrix as columns, by falling eigenvalue."""
    return np.linalg.eigh(moment)[1][:, ::-1]


def schur_basis(schur: ts.OrderedSchur, states: np.ndarray) -> np.ndarray:
    """Q with the two axes in the plane of every pair turned to the principal axes of the states there.

    Which axes span a plane is free. Where W is orthogonal, not even LAPACK's convention would fix them.
    """
    Q = schur.Q.copy()
    for start, size in schur.blocks:
        if size == 2:
            plane = Q[:, start : start + 2]
            Q[:, start : start + 2] = plane @ principal(np.cov(states @ plane, rowvar=False))
    return Q


def rotation(n: int, rng: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix (n, n) from the Haar measure."""
    return ortho_group.rvs(n, random_state=rng) if n > 1 else np.eye(n)


def bases(network: Network, seed: int) -> Iterator[tuple[str, int, Callable[[], tuple[np.ndarray, np.ndarray]]]]:
    """Name, number of the draw, and how to make the bases of targets and of sources, (n, n) each."""
    sectors, states = network.sectors, network.states()
    schur, n = sectors.schur, len(sectors.schur.W)
    rng = np.random.default_rng((seed, 1))

    def both(U):
        return U, U

    def in_order(order):
        return both(schur_basis(schur.reordered(order), states))

    yield "elementary", 0, lambda: both(np.eye(n))
    yield "Schur", 0, lambda: both(schur_basis(schur, states))
    yield "PCA", 0, lambda: both(principal(np.cov(states, rowvar=False)))
    yield "moment", 0, lambda: both(principal(states.T @ states))
    yield "rising", 0, lambda: in_order(range(len(schur.blocks))[::-1])
    for draw in range(DRAWS):
        yield "random", draw, partial(both, rotation(n, rng))
        yield "admissible", draw, partial(in_order, schur.admissible_order(rng))
        yield "any order", draw, partial(in_order, rng.permutation(len(schur.blocks)))
        parts = [sectors.basis(sector) for sector in "RC"]
        turned = [part @ rotation(part.shape[1], rng) for part in parts if part.shape[1]]
        yield "sectors", draw, partial(both, np.hstack(turned))
    # Sorted by variance, but not by that of the task's own states.
    inputs = network.trials.inputs
    noise = rng.normal(inputs.mean(axis=(0, 1)), inputs.std(axis=(0, 1)) + 1e-12, size=inputs.shape)
    yield "noise PCA", 0, lambda: both(principal(np.cov(network.states(noise), rowvar=False)))
    left, _, right = np.linalg.svd(schur.W)
    yield "left singular", 0, lambda: both(left)
    yield "right singular", 0, lambda: both(right.T)
    yield "singular pairs", 0, lambda: (left, right.T)
    yield "two-sided", 0, lambda: two_sided(network.other_jacobian)


def two_sided(jacobian: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors of Σ G Gᵀ for targets, where outputs listen, and of Σ Gᵀ G for sources, where states move."""
    return tuple(principal((left @ left.mT).sum(dim=0).numpy()) for left in (jacobian, jacobian.mT))


def best_share(jacobian: torch.Tensor, count: int, rng: np.random.Generator) -> float:
    """Share of the sum that the best `count` orthonormal directions of all have: no basis can do better.

    These are the leading right singular vectors of the Jacobian (output, n²), found by subspace iteration.
    """
    J = jacobian.flatten(1)
    space = torch.from_numpy(rng.normal(size=(J.shape[1], 2 * count)))
    for _ in range(4):
        space = torch.linalg.qr(J.T @ (J @ space)).Q
    values = torch.linalg.svdvals(J @ space)[:count]
    return float(values.square().sum() / J.square().sum())


def concentration(S: np.ndarray) -> dict[str, float]:
    """How unevenly ΣS² is spread.

    share is that of the top `TOP` of the directions; directions the participation ratio (ΣS²)² / ΣS⁴; ninety the least
    number that has nine tenths; source and target the shares of the top `TOP` of n², as rounded to whole columns and
    rows, which is one of each.
    """
    squares = np.sort((S**2).ravel())[::-1]
    total = squares.sum()
    return {
        "share": squares[: round(TOP * S.size)].sum() / total,
        "directions": total**2 / (squares**2).sum(),
        "ninety": int(np.searchsorted(squares.cumsum(), 0.9 * total)) + 1,
        "source": (S**2).sum(axis=0).max() / total,
        "target": (S**2).sum(axis=1).max() / total,
    }


def measure(family: str, seed: int, only: Iterable[str] | None = None) -> pd.DataFrame:
    """Concentration of sensitivity in every basis for one network, and in four of them before its training."""
    network, rows = Network.of(family, seed), []
    asked = (lambda name: True) if only is None else set(only).__contains__
    for name, draw, make in bases(network, seed):
        if asked(name):
            rows.append({"basis": name, "draw": draw} | concentration(sensitivity(network.jacobian, *make())))
    if asked("best"):
        count = round(TOP * network.W.size)
        best = best_share(network.jacobian, count, np.random.default_rng(seed))
        rows.append({"basis": "best", "draw": 0, "share": best})
    if asked("start"):
        fresh = Network.of(family, seed, start=True)
        for name, draw, make in bases(fresh, seed):
            if name in ("elementary", "random", "Schur", "PCA") and draw == 0:
                row = concentration(sensitivity(fresh.jacobian, *make()))
                rows.append({"basis": f"start, {name}", "draw": draw} | row)
    return pd.DataFrame(rows).assign(family=family, seed=seed).reindex(columns=COLUMNS)


def named_bases(network: Network, seed: int, only: Iterable[str] = CUT) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Bases of targets and sources, each (n, n), of those in `CUT`."""
    makers = {name if draw == 0 else f"{name} {draw + 1}": make for name, draw, make in bases(network, seed)}
    return {name: makers[name]() for name in CUT if name in only}


def consequences(network: Network, matrices: Iterable[np.ndarray]) -> pd.DataFrame:
    """What other recurrent matrices do: fvu, score and change, one row a matrix.

    change is the root of Σ (f̃ − f)² over the trials, divided by the sum of squares that the FVU divides by.
    """
    trials, weights = network.trials, network.solutions.weights
    whole = weights.variants(0, network.W[None]).outputs(trials.inputs).numpy()[..., trials.mask, :, :]
    matrices, rows = iter(matrices), []
    while few := list(islice(matrices, 8)):
        outputs = weights.variants(0, np.stack(few)).outputs(trials.inputs).numpy()
        moved = ((outputs[..., trials.mask, :, :] - whole) ** 2).sum(axis=(1, 2, 3)) / variance(trials)
        score = network.solutions.recipe.task.score(outputs, trials)
        rows.append(pd.DataFrame({"fvu": ts.fvu(outputs, trials), "score": score, "change": np.sqrt(moved)}))
    return pd.concat(rows, ignore_index=True)


def entries(family: str, seed: int, only: Iterable[str] = BASES) -> pd.DataFrame:
    """Cut single coefficients c_ij = u_iᵀ W u_j, some in each basis, and compare with |c_ij| S_ij."""
    network, rows = Network.of(family, seed), []
    steepest = gradient(network.solutions, 0, network.trials)
    for basis, (U, _) in named_bases(network, seed, only).items():
        rng = np.random.default_rng((seed, 2, BASES.index(basis)))
        table = cut_entries(network, basis, U, steepest, rng)
        rows += [{"basis": basis, "part": part} | foretold(table[chosen]) for part, chosen in groups(table)]
    return pd.DataFrame(rows).assign(family=family, seed=seed).reindex(columns=ENTRY_COLUMNS)


def cut_entries(network, basis: str, U: np.ndarray, steepest: np.ndarray, rng) -> pd.DataFrame:
    """One row an entry that is cut, with what was foretold and what happened.

    group is "most" for the `MOST` entries with the largest prediction; "drawn" for one of each of `DRAWN` equal slices
    of all entries, in the order of their prediction; in Schur directions also RR, CR and CC for random ones of those.
    """
    c = U.T @ network.W @ U
    per_output = network.trials.targets[network.trials.mask].size / variance(network.trials)
    first = np.abs(c) * sensitivity(network.jacobian, U) * np.sqrt(per_output)
    there = np.flatnonzero(np.abs(c) > network.sectors.mass_floor)
    ranked = there[np.argsort(first.flat[there])]
    chosen = {"drawn": [rng.choice(part) for part in np.array_split(ranked, DRAWN) if len(part)]}
    chosen["most"] = ranked[-MOST:].tolist()
    if basis == "Schur":
        for name, places in part_masks(network.sectors).items():
            inside = np.intersect1d(there, np.flatnonzero(places))
            chosen[name] = rng.choice(inside, min(OF_A_PART, len(inside)), replace=False).tolist()
    place = np.concatenate([np.asarray(each, dtype=int) for each in chosen.values()])
    i, j = np.unravel_index(place, c.shape)
    removals = c[i, j, None, None] * U.T[i, :, None] * U.T[j, None, :]
    after = consequences(network, (network.W - K for K in (0 * network.W, *removals)))
    whole, after = after.iloc[0], after.iloc[1:].reset_index(drop=True)
    slope, group = -along(steepest, removals), np.repeat(list(chosen), [len(each) for each in chosen.values()])
    most = group == "most"
    compounded = np.full(len(group), np.nan)
    compounded[most] = curvature(network.solutions, 0, removals[most], network.trials, compounded=True) ** 0.5
    block = block_of(network.sectors.schur) if basis == "Schur" else np.arange(len(c))
    return after.assign(
        group=group,
        i=i,
        j=j,
        size=np.abs(c[i, j]),
        sensitivity=first[i, j] / np.abs(c[i, j]),
        diagonal=block[i] == block[j],
        first=first[i, j],
        compounded=compounded,
        rise=slope + first[i, j] ** 2,
        slope=slope,
        delta_fvu=after["fvu"] - whole["fvu"],
        effect=ts.effect(after["fvu"], after["score"], whole["fvu"], whole["score"]),
        allowed=max(whole["fvu"], 0.01),
    )


def block_of(schur: ts.OrderedSchur) -> np.ndarray:
    """Number of the diagonal block of every coordinate (n,)."""
    return np.repeat(np.arange(len(schur.blocks)), [size for _, size in schur.blocks])


def part_masks(sectors: ts.Sectors) -> dict[str, np.ndarray]:
    """Where RR, CR and CC stand in T, as boolean (n, n)."""
    n, r = len(sectors.schur.T), sectors.rank
    block = block_of(sectors.schur)
    above, leads = block[:, None] < block, np.arange(n) < r
    return {
        "RR": above & leads[:, None] & leads,
        "CR": above & leads[:, None] & ~leads,
        "CC": above & ~leads[:, None] & ~leads,
    }


def groups(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Groups of entries, and both general ones together."""
    for name in table["group"].unique():
        yield name, table["group"] == name
    yield "both", table["group"].isin(["drawn", "most"]) & ~table.duplicated(["i", "j"])


def foretold(table: pd.DataFrame) -> dict[str, float]:
    """How well some cuts were foretold."""
    harmless = table["effect"] == "harmless"
    row = {"count": len(table), "harmless": harmless.sum(), "destructive": (table["effect"] == "destructive").sum()}
    row |= {"diagonal": table["diagonal"].sum(), "largest": table["change"].max()}
    row |= {"compounded": (table["compounded"] / table["first"]).median(skipna=False)}
    for name, (x, y) in {
        "first": ("first", "change"),
        "size": ("size", "change"),
        "sensitivity": ("sensitivity", "change"),
        "rise": ("rise", "delta_fvu"),
        "square": ("first", "delta_fvu"),
    }.items():
        row[f"rank_{name}"] = spearmanr(table[x], table[y])[0] if len(table) >= 10 else np.nan
    row |= dict(
        zip(("low", "ratio", "high"), np.quantile(table["change"] / table["first"], [0.1, 0.5, 0.9]), strict=True)
    )
    for name in ("first", "size", "rise"):
        row[f"auc_{name}"] = auc(table[name].to_numpy(), ~harmless.to_numpy())
    calm = table["rise"] <= table["allowed"]
    missed, by_score = calm & ~harmless, table["delta_fvu"] <= table["allowed"]
    return row | {
        "missed": missed.sum(),
        "missed_score": (missed & by_score).sum(),
        "alarms": (~calm & harmless).sum(),
    }


def auc(values: np.ndarray, positive: np.ndarray) -> float:
    """How often the positive case has the larger value, if one of each kind is drawn; NaN if a kind is missing."""
    k, n = positive.sum(), len(values)
    if k in (0, n):
        return np.nan
    return (rankdata(values)[positive].sum() - k * (k + 1) / 2) / (k * (n - k))


def blocks(family: str, seed: int, only: Iterable[str] = CUT) -> pd.DataFrame:
    """Cut many entries at once in each basis, at one dose or several, and compare with ‖J K‖.

    RR, CR and CC are those of T, and the same places of Uᵀ W U in other bases; insensitive are the directions with the
    least S_ij, weak the entries with the least |c_ij| S_ij, all but a share of `KEPT` of them.
    """
    network, tables = Network.of(family, seed), []
    steepest = gradient(network.solutions, 0, network.trials)
    for basis, (U, V) in named_bases(network, seed, only).items():
        c = U.T @ network.W @ V
        S = sensitivity(network.jacobian, U, V)
        doses = DOSES[-DOSES_OF.get(basis, 1) :]
        parts = {name: (places, doses) for name, places in part_masks(network.sectors).items() if basis in BASES}
        parts |= {"insensitive": (least(S), DOSES[-1:]), "weak": (least(np.abs(c) * S), DOSES[-1:])}
        for part, (places, doses) in parts.items():
            K = U @ (places * c) @ V.T
            if np.linalg.norm(K) > network.sectors.mass_floor:
                tables.append(cut_block(network, K, doses, steepest).assign(basis=basis, part=part))
    return pd.concat(tables, ignore_index=True).assign(family=family, seed=seed)[BLOCK_COLUMNS]


def least(values: np.ndarray) -> np.ndarray:
    """Where (n, n) all but the largest `KEPT` of the values stand."""
    order = np.argsort(values, axis=None, kind="stable")
    chosen = np.zeros(values.size, dtype=bool)
    chosen[order[: values.size - round(KEPT * values.size)]] = True
    return chosen.reshape(values.shape)


def cut_block(network: Network, K: np.ndarray, doses: Iterable[float], steepest: np.ndarray) -> pd.DataFrame:
    """What removing shares of K does, and what was foretold: one row a dose."""
    doses = np.array(doses)
    removals = doses[:, None, None] * K
    first = curvature(network.solutions, 0, K[None], network.trials)[0] ** 0.5
    compounded = curvature(network.solutions, 0, removals, network.trials, compounded=True) ** 0.5
    after = consequences(network, (network.W - removal for removal in (0 * K, *removals)))
    whole, after = after.iloc[0], after.iloc[1:].reset_index(drop=True)
    return pd.DataFrame(
        {
            "dose": doses,
            "mass": doses * np.linalg.norm(K),
            "slope": -along(steepest, removals),
            "first": doses * first,
            "compounded": compounded,
            "change": after["change"],
            "delta_fvu": after["fvu"] - whole["fvu"],
            "score": after["score"],
            "effect": ts.effect(after["fvu"], after["score"], whole["fvu"], whole["score"]),
        }
    )


def main() -> None:
    jobs = [(family, seed) for family in FAMILIES for seed in ts.REFERENCE_SEEDS]
    facts = {"trials": TRIALS, "mapped": MAPPED}
    _table.write("bridge", _table.compute(measure, jobs), FAMILIES, draws=DRAWS, top=TOP, **facts)
    _table.write("bridge-entries", _table.compute(entries, jobs), FAMILIES, most=MOST, drawn=DRAWN, **facts)
    _table.write("bridge-blocks", _table.compute(blocks, jobs), FAMILIES, doses=DOSES, kept=KEPT, **facts)


if __name__ == "__main__":
    main()
