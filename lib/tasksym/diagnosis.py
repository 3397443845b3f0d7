"""What in the recurrent matrix of anyone's network can go: one call, one answer."""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import jinja2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from torch import nn

from tasksym import _checks, plotting
from tasksym.ablation import ablation_profile, dose_response, order_range
from tasksym.foreign import read_network, solutions_of
from tasksym.metrics import effect
from tasksym.nulls import DRAWS, PRIMARY, size_matched, verdicts
from tasksym.readout import readout_confound
from tasksym.schur import ordered_schur
from tasksym.sectors import SMALL_MARGIN, Sectors, SplitWarning
from tasksym.training import Solutions

ORDERS = 21  # admissible orders of the blocks that CC and RR are looked at in, the one by modulus among them
POOR_FIT = 0.1  # FVU of the whole network above which its ablations say little about its task
FEW_TRIALS = 64
LEVEL = 0.05  # false discovery rate of the second words
MEANING = {
    "RR": "inside the leading sector",
    "CR": "from the complement into the leading sector",
    "CC": "inside the complement",
}


@dataclass(frozen=True)
class Verdict:
    """Two words on a coupling.

    Parameters
    ----------
    effect : str
        "absent", "harmless", "degrading" or "destructive"; see `effect`.
    relative : str
        "below chance", "as chance" or "above chance" among random removals of equal mass; "" if absent.
    p : float
        Of the second word, after Benjamini and Hochberg over the couplings of the network; NaN if absent.
    """

    effect: str
    relative: str
    p: float

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.effect, self.relative)))


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What `diagnose` found. In a notebook it shows itself; elsewhere, and in `print`, its summary.

    Parameters
    ----------
    name : str
    sectors : Sectors
        The split that was judged.
    fvu, score : float
        Of the whole network.
    table : DataFrame
        One row a coupling, with the columns couplings; mass; fvu, delta_fvu and score after its removal; effect and
        relative, the two words; p; low, median and high, the 5th, 50th and 95th percentile of the ΔFVU of random
        removals of its mass; harmless, the share of these that are so; least and largest, its ΔFVU over admissible
        orders of the blocks; reading, as `readout_confound`.
    profile : DataFrame
        As `ablation_profile`, with an effect for each of the eight sets.
    doses : DataFrame
        As `dose_response`.
    caveats : tuple of str
        Why not to trust a word, in sentences.
    """

    name: str
    sectors: Sectors
    fvu: float
    score: float
    table: pd.DataFrame
    profile: pd.DataFrame
    doses: pd.DataFrame
    caveats: tuple[str, ...]

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """A verdict for each of RR, CR and CC."""
        return {row.couplings: Verdict(row.effect, row.relative, row.p) for row in self.table.itertuples()}

    @property
    def removable(self) -> str:
        """The set of couplings of the largest mass whose removal is harmless, such as "RR+CC"; "" if there is none."""
        harmless = self.profile[(self.profile["effect"] == "harmless") & (self.profile["couplings"] != "")]
        return "" if harmless.empty else str(harmless.loc[harmless["mass"].idxmax(), "couplings"])

    @property
    def sentences(self) -> tuple[str, ...]:
        """The summary, a sentence or two for each point."""
        hidden, rank = len(self.sectors.schur.T), self.sectors.rank
        told = [
            f"{hidden} hidden units. The leading sector, of eigenvalue moduli from {self.sectors.alpha:.3g} up, has "
            f"dimension {rank}. The whole network has an FVU of {self.fvu:.3g}{self._scored(self.score, ' and')}."
        ]
        for row in self.table.itertuples():
            start = f"{row.couplings}, {MEANING[row.couplings]}: {self.verdicts[row.couplings]}."
            if row.effect == "absent":
                told.append(f"{start} There is nothing to remove.")
                continue
            rise = f"{'lower' if row.delta_fvu < 0 else 'higher'} by {abs(row.delta_fvu):.3g}"
            told.append(
                f"{start} Without it the FVU is {rise}{self._scored(row.score, ' at')}. Random cuts of its mass, "
                f"{row.mass:.3g}, cost {row.median:.3g} ({row.low:.3g} to {row.high:.3g})."
            )
        if self.removable:
            mass = self.profile.set_index("couplings")["mass"]
            told.append(
                f"What can go: {self.removable}, a mass of {mass[self.removable]:.3g} out of {mass['RR+CR+CC']:.3g} "
                "in all couplings. That is known for trials like these, and for no others."
            )
        else:
            told.append("What can go: no coupling, on these trials.")
        return tuple(told)

    @property
    def summary(self) -> str:
        """The findings and the caveats in plain words."""
        lines = [self.name, *self.sentences, *(f"Caution: {caveat}" for caveat in self.caveats)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary

    def figure(self, ax: Axes | None = None) -> Axes:
        """ΔFVU against the mass removed, up to each whole coupling; a bar at its end is what random cuts cost."""
        ax = plotting.dose(self.doses, ax=ax or plt.gca())
        for row in self.table[self.table["p"].notna()].itertuples():
            ax.vlines(row.mass, row.low, row.high, color=plotting.COLOURS[row.couplings], linewidth=5, alpha=0.3)
        return ax

    def html(self, *, whole_page: bool = True) -> str:
        """The report, a page of its own or a part of one. Texts are escaped; nothing is loaded from elsewhere."""
        source = resources.files("tasksym").joinpath("data/report.html").read_text(encoding="utf-8")
        template = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)
        rows = self._printed().to_dict("records")
        return template.render(diagnosis=self, rows=rows, figure=self._png(), page=whole_page)

    def report(self, path) -> None:
        """Write `html` to a file, all of it or nothing."""
        path = Path(path)
        part = path.with_name(path.name + ".part")
        part.write_text(self.html(), encoding="utf-8")
        part.replace(path)

    def _repr_html_(self) -> str:
        return self.html(whole_page=False)

    def _scored(self, score: float, joint: str) -> str:
        return "" if np.isnan(score) else f"{joint} a score of {score:.3g}"

    def _printed(self) -> pd.DataFrame:
        """The table as people read it: a verdict and ranges in words."""
        printed = self.table.assign(verdict=list(map(str, self.verdicts.values())))
        for name, columns in (("random cuts", ("low", "high")), ("over orders", ("least", "largest"))):
            low, high = (self.table[column].map("{:.2g}".format) for column in columns)
            both = (low + " to " + high).where(low != high, low)  # C→R is the same in all orders
            printed[name] = both.where(self.table[columns[0]].notna(), "–")
        columns = ["couplings", "verdict", "mass", "delta_fvu", "random cuts", "over orders", "score", "reading"]
        return plotting.table(printed[columns], index="couplings").rename_axis("coupling").reset_index()

    def _png(self) -> str:
        with plt.rc_context({"figure.facecolor": "white"}):
            figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
            handles, labels = self.figure(ax).get_legend_handles_labels()
            if handles:
                figure.legend(handles, labels, loc="outside upper right", ncols=len(handles))
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
            plt.close(figure)
        return base64.b64encode(buffer.getvalue()).decode("ascii")


def diagnose(
    model,
    trials,
    readout=None,
    alpha: float = 0.9,
    *,
    score=None,
    leak: float = 1.0,
    activation: str | None = None,
    initial_state=None,
    batch_first: bool | None = None,
    draws: int = DRAWS,
    rng: int = 0,
    name: str = "network",
    progress: bool = True,
) -> Diagnosis:
    """Which couplings of a network's recurrent matrix can go, on some trials, and is that more than their size?

    Parameters
    ----------
    model, readout, leak, activation, initial_state
        As for `read_network`: a torch.nn.RNN, a module that holds one, a state_dict, or W_xh, W_hh, W_hy.
    trials
        As for `read_trials`: inputs; or (inputs, targets); or with a mask; or a callable. Without targets the ablated
        network is judged by the whole one's outputs. If targets are classes, the readout gives logits: leave them out,
        and count right answers in `score`.
    alpha : float
        Least eigenvalue modulus of the leading sector. For leaky units the matrix of a step, (1 − a) I + a W_hh, is
        split at 1 − a (1 − alpha): alpha stands for what is left after a time constant, 1/a steps, of a slow decay.
    score : callable, optional
        From outputs and targets to a number in [0, 1]: what a person would count. It gets NumPy arrays with the axes
        of the arrays given, and only the steps that count.
    batch_first : bool, optional
        Whether arrays have the axes (trial, time, channel); as the module says if absent, else not.
    draws : int
        Random removals for each coupling.
    rng : int
        Seed of the random removals.
    name : str
        What to call the network.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    Diagnosis

    Raises
    ------
    TypeError, ValueError
        If the network is of a kind that this package does not read, or something does not fit; the message says what.
    """
    if batch_first is None:
        layers = model.modules() if isinstance(model, nn.Module) else ()
        batch_first = any(getattr(layer, "batch_first", False) for layer in layers)
    network, ignored = read_network(model, readout, leak=leak, activation=activation, initial_state=initial_state)
    solutions = solutions_of(network, trials, score, batch_first=batch_first)
    threshold = 1 - leak * (1 - _checks.number("alpha", alpha, open_low=True))
    if threshold <= 0:
        raise ValueError(f"alpha = {alpha:g} is below what any mode of leak {leak:g} decays to; try a larger one")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SplitWarning)  # told among the caveats
        sectors = ordered_schur(network.W_hh[0]).sectors(threshold)
        profile = ablation_profile(solutions, alpha=threshold)
        drawn = size_matched(solutions, [PRIMARY], alpha=threshold, draws=draws, rng=rng, progress=progress)
        chance = verdicts(drawn, LEVEL)
        orders = order_range(solutions, range(ORDERS), alpha=threshold)
        doses = dose_response(solutions, alpha=threshold)
        readings = readout_confound(solutions, alpha=threshold)
    whole = profile.iloc[0]
    there = profile["sensitivity"].notna() | (profile["couplings"] == "")
    profile["effect"] = effect(profile["fvu"], profile["score"], whole["fvu"], whole["score"], there)
    ends = orders.groupby("couplings")["delta_fvu"].agg(least="min", largest="max")
    table = chance.drop(columns="p").rename(columns={"p_adjusted": "p"}).set_index("couplings")
    table = table.join(ends).join(readings.set_index("couplings")["reading"]).fillna({"reading": ""}).reset_index()
    columns = ["couplings", "mass", "fvu", "delta_fvu", "score", "effect", "relative", "p"]
    table = table[[*columns, "low", "median", "high", "harmless", "least", "largest", "reading"]]
    caveats = _caveats(solutions, sectors, table, orders, whole, draws)
    if score is None:
        profile["score"] = table["score"] = np.nan
    return Diagnosis(
        name, sectors, float(whole["fvu"]), float(profile["score"].iloc[0]), table, profile.drop(columns="seed"),
        doses, (*caveats, *(f"{key} was ignored." for key in ignored)),
    )  # fmt: skip


def _caveats(
    solutions: Solutions, sectors: Sectors, table: pd.DataFrame, orders: pd.DataFrame, whole: pd.Series, draws: int
) -> list[str]:
    """What makes a word doubtful, the gravest first."""
    network, trials = solutions.weights, solutions.recipe.evaluation_trials().inputs.shape[1]
    threshold, told = sectors.alpha, []
    if whole["fvu"] > POOR_FIT:
        poor = (
            f"leaves {whole['fvu']:.0%} of the targets' variance unexplained"
            if whole["fvu"] < 1
            else f"is no better than a constant (FVU {whole['fvu']:.3g})"
        )
        told.append(
            f"The whole network {poor}. What a cut does to a task that is not done says little. If you know it to be "
            "done, look at leak, activation, axes and targets."
        )
    if not 0 < sectors.rank < len(sectors.schur.T):
        where = "has no eigenvalue" if sectors.rank == 0 else "has no eigenvalue below it"
        told.append(f"The matrix {where} at {threshold:.3g}, so that there is one sector only. Try another alpha.")
    elif sectors.margin < SMALL_MARGIN:
        told.append(
            f"A change of the matrix by {sectors.margin:.1e} of its norm can move an eigenvalue over {threshold:.3g} "
            f"(gap {sectors.gap:.2g}), so the split itself is in doubt. Look whether another alpha gives other words."
        )
    if sectors.schur.refused:
        told.append(f"{len(sectors.schur.refused)} pairs of eigenvalues are too close to be put in order.")
    for coupling, rows in orders.groupby("couplings"):
        words = sorted(set(effect(whole["fvu"] + rows["delta_fvu"], rows["score"], whole["fvu"], whole["score"])))
        if len(words) > 1:
            told.append(
                f"{coupling} depends on the order of blocks inside a sector, which is a convention: over "
                f"{orders['order'].nunique()} orders it is {' or '.join(words)}."
            )
    for row in table.itertuples():
        others = f"{row.harmless:.0%} of random cuts of its mass"
        if row.effect == "harmless" and row.harmless >= 0.5:
            told.append(f"{row.couplings} can go because there is little of it: {others} are harmless, too.")
        elif row.effect == "harmless" and row.relative != "below chance":
            told.append(
                f"{row.couplings} can go, and only {others} can; but that it costs less than they do is not sure "
                f"(p = {row.p:.2g})."
            )
        if row.reading == "output-null":
            told.append(
                f"Without {row.couplings} the states move, but where this readout does not look. Another may see it."
            )
    if 2 * table["p"].count() / (1 + draws) > LEVEL:  # the least p, after correction, of one that stands out
        told.append(f"With {draws} random cuts a coupling far from chance can be called 'as chance'. Take 1,000.")
    if trials < FEW_TRIALS:
        told.append(f"There are {trials} trials only.")
    if solutions.recipe.task.own:
        told.append("No targets were given, so the outputs of the whole network stand for them, right or wrong.")
    if solutions.recipe.task.scorer is None:
        told.append("No score was given, so the first words rest on the FVU alone.")
    if network.leak != 1:
        told.append(
            f"Units are leaky (a = {network.leak:g}): the matrix of a step, (1 − a) I + a W_hh, was split, at "
            f"{threshold:.3g}. Its couplings are a times those of W_hh."
        )
    if network.activation == "relu":
        told.append(
            "Rectified units have no slope at rest: W_hh is the step of a state in which every unit is active."
        )
    return told
