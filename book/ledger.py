"""The claims that the book judges, the rule by which it does, and the evidence.

A claim is put as a margin: a number for every network, above zero where the claim holds for it. The page on claims
prints the ledger; a test recomputes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import tasksym as ts

STUDIES = Path(__file__).parent / "studies"
COUPLED = ["copy-dense-orthogonal", "flip-flop", "sine", "context-integration"]  # copy-cayley has no couplings
CROSSED = ["flip-flop", "sine", "context-integration"]  # one width, start, rate and length of training


class Evidence:
    """What the reference solutions show, by network (seed) and by order of the Schur blocks (0 is by modulus)."""

    def __init__(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks; the page says so
            tables = [ts.ablation_profile(ts.reference(name)).assign(family=name) for name in ts.RECIPES]
        self._profiles = pd.concat(tables, ignore_index=True)
        self._orders = pd.read_csv(STUDIES / "orders.csv")
        chance = ts.verdicts(pd.read_csv(STUDIES / "nulls.csv"))
        self._chance = chance[chance["null"] == "equal mass"]

    def __call__(self, family: str, column: str) -> pd.DataFrame:
        """A column of the profiles: (order and seed) × (set of couplings).

        Sets of several couplings are known in order 0 only, and stand in all rows. So does CR, which has no order.
        """
        chosen = self._profiles[self._profiles["family"] == family]
        by_modulus = chosen.pivot(index="seed", columns="couplings", values=column)
        orders = self._orders[(self._orders["family"] == family) & self._orders["couplings"].isin(["RR", "CC"])]
        numbers = sorted(orders["order"].unique())
        table = pd.concat(dict.fromkeys(numbers or [0], by_modulus), names=["order"])
        known = orders[orders["order"] > 0].assign(sensitivity=lambda rows: rows["delta_fvu"] / rows["mass"])
        if len(known):
            table.update(known.pivot(index=["order", "seed"], columns="couplings", values=column))
        return table

    def lost(self, family: str) -> pd.DataFrame:
        """Fall of the score, shaped as above."""
        score = self(family, "score")
        return score.mul(-1).add(score[""], axis=0)

    def chance(self, family: str, coupling: str) -> pd.DataFrame:
        """The coupling against random removals of its mass, by seed: columns of `ts.verdicts`, and room.

        Room is what the removal costs less than the cheapest twentieth of the random ones.
        """
        of_coupling = (self._chance["family"] == family) & (self._chance["couplings"] == coupling)
        rows = self._chance[of_coupling].set_index("seed")
        return rows.assign(room=rows["low"] - rows["delta_fvu"])

    def condition(self, family: str) -> pd.Series:
        """Condition number of the eigenvector matrix of every network."""
        weights = ts.reference(family).weights.W_hh.double().numpy()
        return pd.Series(np.linalg.cond(np.linalg.eig(weights)[1]), index=list(ts.REFERENCE_SEEDS))


@dataclass(frozen=True)
class Claim:
    """What the paper says, put as a margin.

    Parameters
    ----------
    statement : str
    about : str
        The family, or what else was looked at.
    margin : callable
        From evidence to a Series of which every network is an entry, or every order and network.
    figures : callable
        From evidence to the decisive quantities, a Series for each name.
    by_construction : bool
        Whether it could not have come out otherwise.
    removable : (str, str), optional
        Family and coupling, if the claim is that the coupling can go.
    control : callable, optional
        From evidence to a Series, the room, if the claim is that training or the method did it: by how much a trained
        network, or the method, is ahead of an untrained one, or of a cheaper method.
    """

    statement: str
    about: str
    margin: Callable[[Evidence], pd.Series]
    figures: Callable[[Evidence], dict[str, pd.Series]]
    by_construction: bool = False
    removable: tuple[str, str] | None = None
    control: Callable[[Evidence], pd.Series] | None = None


def verdict(
    margin: pd.Series, interval: tuple[float, float], by_construction: bool = False, room: float | None = None
) -> str:
    """The rule.

    By construction, if it could not have come out otherwise. Else reproduced, if four things hold: the median margin
    over the networks is above zero, so is its bootstrap interval, so is the median if every network takes the order
    of blocks that favours the claim least, and so is the room, at the lower end of its interval, where the claim is
    that a coupling can go. Qualified, if the first holds and another fails. Else not reproduced.
    """
    if by_construction:
        return "by construction"
    by_modulus, worst = by_order(margin)
    if np.median(by_modulus) <= 0:
        return "not reproduced"
    special = room is None or room > 0
    return "reproduced" if interval[0] > 0 and np.median(worst) > 0 and special else "qualified"


def by_order(margin: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The margin of every network by modulus, and in the order that favours the claim least."""
    if "order" not in margin.index.names:
        return margin.to_numpy(), margin.to_numpy()
    return margin.xs(0, level="order").to_numpy(), margin.groupby("seed").min().to_numpy()


def judged(evidence, claims: list[Claim] | None = None) -> pd.DataFrame:
    """One row a claim: statement, about, figures, median margin, its interval, worst order, room, verdict.

    Of the room, which only claims have that something can go, or that it belongs to training, it is the lower end of
    the median's interval. The claims are those of Dräger if none are named.
    """
    rows = []
    for claim in CLAIMS if claims is None else claims:
        margin = claim.margin(evidence)
        by_modulus, worst = by_order(margin)
        low, high = median_interval(by_modulus)
        figures = [f"{name} {spread(values)}" for name, values in claim.figures(evidence).items()]
        room = None
        if claim.control:
            room, _ = median_interval(claim.control(evidence).to_numpy())
        if claim.removable:
            chance = evidence.chance(*claim.removable)
            room, _ = median_interval(chance["room"].to_numpy())
            for word in ("below chance", "above chance"):
                figures.append(f"{claim.removable[1]} {word} in {(chance['relative'] == word).sum()}")
        rows.append(
            {
                "claim": claim.statement,
                "about": claim.about,
                "our figures": "; ".join(figures),
                "median": np.median(by_modulus),
                "low": low,
                "high": high,
                "worst order": np.median(worst),
                "room": np.nan if room is None else room,
                "verdict": verdict(margin, (low, high), claim.by_construction, room),
            }
        )
    return pd.DataFrame(rows, index=range(1, len(rows) + 1))


def verdicts(table: pd.DataFrame) -> Sentences:
    """Of `judged`: verdict, and claim with what it is about."""
    claims = table["about"] + ". " + table["claim"]
    return Sentences(table[["verdict"]].assign(claim=claims.str[:1].str.upper() + claims.str[1:]))


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Bootstrap interval of the median over networks."""
    return ts.bootstrap_interval(values, lambda drawn: np.median(drawn, axis=1))


class Sentences:
    """A table whose cells are sentences: pages show them whole, wrap them and set them left."""

    def __init__(self, frame: pd.DataFrame):
        self._frame = frame

    def __repr__(self) -> str:
        return self._frame.to_string()

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return self._frame.to_html(classes="sentences")


def spread(values: pd.Series) -> str:
    """Median and range over networks, in the order by modulus."""
    values = values.xs(0, level="order") if "order" in values.index.names else values
    return f"{values.median():#.3g} ({values.min():#.3g} to {values.max():#.3g})"


# --- Margins that more than one claim, or more than a line, needs


def leads(first: str, table: pd.DataFrame) -> pd.Series:
    """By how much one coupling is above the other two."""
    others = [coupling for coupling in ts.COUPLINGS if coupling != first]
    return table[first] - table[others].max(axis=1)


def none_is_always_safe(evidence: Evidence) -> pd.Series:
    """For every seed: what each coupling costs in the family that it costs most; the least of the three, over .05."""
    costs = [evidence.lost(family)[list(ts.COUPLINGS)].loc[0] for family in COUPLED]
    return pd.concat(costs).groupby("seed").max().min(axis=1) - 0.05


def tells_its_task(evidence: Evidence) -> pd.Series:
    """Log profile (CR, CC) nearer to its own task's centroid, made without it, than to that of any other task."""
    logs = {family: np.log10(evidence(family, "delta_fvu")[["CR", "CC"]].loc[0]) for family in CROSSED}
    margins = []
    for family, own in logs.items():
        to_own = np.linalg.norm(own - (own.sum() - own) / (len(own) - 1), axis=1)
        to_others = [np.linalg.norm(own - other.mean(), axis=1) for name, other in logs.items() if name != family]
        margins.append(pd.Series(np.min(to_others, axis=0) - to_own, index=own.index))
    return pd.concat(margins, keys=logs, names=["family"])


def differs_from_its_family(evidence: Evidence) -> pd.Series:
    """By how much CR or CC differs from the family's median, as a factor, over a quarter (in powers of two)."""
    factors = []
    for family in CROSSED:
        effect = evidence(family, "delta_fvu")[["CR", "CC"]].loc[0]
        factors.append(np.log2(effect / effect.median()).abs().max(axis=1))
    return pd.concat(factors, keys=CROSSED, names=["family"]) - np.log2(1.25)


CLAIMS = [
    Claim(
        "Large structured changes can leave behaviour, while changes of similar size in other directions destroy it.",
        "flip-flop: CC against CR",
        lambda e: pd.concat(
            [
                e("flip-flop", "mass")["CC"] - e("flip-flop", "mass")["CR"],
                0.01 - e.lost("flip-flop")["CC"],
                e.lost("flip-flop")["CR"] - 0.05,
            ],
            axis=1,
        ).min(axis=1),
        lambda e: {
            "mass CC": e("flip-flop", "mass")["CC"],
            "mass CR": e("flip-flop", "mass")["CR"],
            "score without CC": e("flip-flop", "score")["CC"],
            "without CR": e("flip-flop", "score")["CR"],
        },
        removable=("flip-flop", "CC"),
    ),
    Claim(
        "Eigenvector coordinates are ill-conditioned where Schur coordinates are orthogonal (cond V above 100).",
        "four families with couplings",
        lambda e: pd.concat([e.condition(family) for family in COUPLED], keys=COUPLED) - 100,
        lambda e: {"cond V": pd.concat([e.condition(family) for family in COUPLED])},
    ),
    Claim(
        "The replay survives without CC (score above .99).",
        "copy-dense-orthogonal",
        lambda e: e("copy-dense-orthogonal", "score")["CC"] - 0.99,
        lambda e: {"score": e("copy-dense-orthogonal", "score")["CC"]},
        removable=("copy-dense-orthogonal", "CC"),
    ),
    Claim(
        "Without RR, or without CR, the replay falls into less accurate classes (score down by more than .01).",
        "copy-dense-orthogonal",
        lambda e: e.lost("copy-dense-orthogonal")[["RR", "CR"]].min(axis=1) - 0.01,
        lambda e: {
            "score without RR": e("copy-dense-orthogonal", "score")["RR"],
            "without CR": e("copy-dense-orthogonal", "score")["CR"],
        },
    ),
    Claim(
        "The complement is negligible, and ablations do nothing (ΔFVU within .001).",
        "copy-cayley",
        lambda e: 1e-3 - e("copy-cayley", "delta_fvu").abs().max(axis=1),
        lambda e: {"score without all three": e("copy-cayley", "score")["RR+CR+CC"]},
        by_construction=True,
    ),
    Claim(
        "C→R costs most.",
        "flip-flop",
        lambda e: leads("CR", e("flip-flop", "delta_fvu")),
        lambda e: {f"ΔFVU {c}": e("flip-flop", "delta_fvu")[c] for c in ts.COUPLINGS},
    ),
    Claim(
        "C→R costs about .09 (within a factor of two).",
        "flip-flop",
        lambda e: 1 - np.log2(e("flip-flop", "delta_fvu")["CR"] / 0.09).abs(),
        lambda e: {"ΔFVU CR": e("flip-flop", "delta_fvu")["CR"]},
    ),
    Claim(
        "RR costs almost nothing (below .01).",
        "flip-flop",
        lambda e: 0.01 - e("flip-flop", "delta_fvu")["RR"],
        lambda e: {"ΔFVU RR": e("flip-flop", "delta_fvu")["RR"], "mass RR": e("flip-flop", "mass")["RR"]},
        removable=("flip-flop", "RR"),
    ),
    Claim(
        "CC and CR are both costly (ΔFVU above .5).",
        "sine",
        lambda e: e("sine", "delta_fvu")[["CR", "CC"]].min(axis=1) - 0.5,
        lambda e: {f"ΔFVU {c}": e("sine", "delta_fvu")[c] for c in ("CR", "CC")},
    ),
    Claim(
        "CR has the highest S.",
        "sine",
        lambda e: e("sine", "sensitivity")["CR"] - e("sine", "sensitivity")["CC"],
        lambda e: {f"S {c}": e("sine", "sensitivity")[c] for c in ("CR", "CC")},
    ),
    Claim(
        "CC costs most.",
        "context-integration",
        lambda e: leads("CC", e("context-integration", "delta_fvu")),
        lambda e: {f"ΔFVU {c}": e("context-integration", "delta_fvu")[c] for c in ("CR", "CC")},
    ),
    Claim(
        "The non-normal part cannot be ignored (without all of it, score down by more than .05).",
        "four families with couplings",
        lambda e: pd.concat([e.lost(family)["RR+CR+CC"].loc[0] for family in COUPLED], keys=COUPLED) - 0.05,
        lambda e: {family: e(family, "score")["RR+CR+CC"] for family in COUPLED},
    ),
    Claim(
        "No coupling is always safe to remove (each destroys some family: score down by more than .05).",
        "four families with couplings, seed by seed",
        none_is_always_safe,
        lambda e: {
            "score of copy without RR": e("copy-dense-orthogonal", "score")["RR"],
            "of sine without CR": e("sine", "score")["CR"],
            "of context without CC": e("context-integration", "score")["CC"],
        },
    ),
    Claim(
        "Profiles vary over tasks (nearer to the centroid of its own task than to any other).",
        "flip-flop, sine, context-integration",
        tells_its_task,
        lambda e: {"margin in powers of ten": tells_its_task(e)},
    ),
    Claim(
        "Profiles vary over solutions of one task (CR or CC more than a quarter off the family's median).",
        "flip-flop, sine, context-integration",
        differs_from_its_family,
        lambda e: {"margin in powers of two": differs_from_its_family(e)},
    ),
]
