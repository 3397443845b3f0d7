"""One house style for figures and tables. Each figure takes data, draws on an Axes and returns it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.ticker import MaxNLocator, NullLocator

from tasksym.schur import OrderedSchur
from tasksym.sectors import COUPLINGS, SETS, Sectors
from tasksym.training import LOSS_WINDOW, Solutions
from tasksym.trials import Trials

COLOURS = {
    "RR": "#0072B2",
    "CR": "#D55E00",
    "CC": "#009E73",
}  # Okabe and Ito: told apart by colour-blind readers
SECTORS = {"R": "#0072B2", "C": "#009E73"}
INK, GREY = "#222222", "#8a8a8a"
NAMES = {"fvu": "FVU", "delta_fvu": "ΔFVU", "sensitivity": "S"}  # of a profile's columns, as pages print them


def use_style() -> None:
    """Set the house style for all figures that follow."""
    sns.set_theme(
        context="notebook",
        style="ticks",
        font="DejaVu Sans",  # comes with matplotlib, so that figures agree between machines
        rc={
            "figure.figsize": (5.6, 3.4),  # small, so that labels stay legible on a phone
            "figure.dpi": 144,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "white",  # opaque: figures stay legible on a dark page
            "savefig.facecolor": "white",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "axes.titlelocation": "left",
            "legend.frameon": False,
        },
    )


def table(frame: pd.DataFrame, index: str) -> pd.DataFrame:
    """A table as pages print it: three significant digits, a dash where a value is undefined, `index` as row names."""
    printed = frame.copy()
    for column in frame.select_dtypes("float"):
        printed[column] = ["–" if np.isnan(value) else f"{value:#.3g}" for value in frame[column]]
    if "couplings" in printed:
        printed["couplings"] = printed["couplings"].map(label)
    return printed.set_index(index).rename_axis(None).rename(columns=NAMES)


def label(couplings: str) -> str:
    """A set of couplings as figures and tables name it."""
    return couplings or "none"


def loss(solutions: Solutions, ax: Axes | None = None) -> Axes:
    """Training loss of every network against steps, on a logarithmic scale."""
    ax = ax or plt.gca()
    steps = (np.arange(solutions.loss.shape[1]) + 1) * LOSS_WINDOW
    for seed, values in zip(solutions.seeds, solutions.loss, strict=True):
        ax.plot(steps, values, label=f"seed {seed}", linewidth=1.5)
    ax.set(xlabel="training step", ylabel="mean squared error", yscale="log")
    if len(solutions) <= 4:
        ax.legend()
    return ax


def rollout(trials: Trials, outputs, trial: int = 0, ax: Axes | None = None) -> Axes:
    """Inputs, targets and one network's outputs (time, trial, out) in one trial, a row a channel."""
    ax = ax or plt.gca()
    outputs = np.asarray(outputs)
    step = np.arange(len(trials.mask))
    channels = trials.targets.shape[2]
    for channel in range(channels):
        offset = 3.0 * (channels - 1 - channel)
        names = ("input", "target", "output") if channel == 0 else (None, None, None)
        pulses = trials.inputs[:, trial, channel]
        at = np.flatnonzero(pulses)
        ax.vlines(at, offset, offset + pulses[at], color=GREY, linewidth=1.5, label=names[0])
        ax.step(
            step,
            offset + trials.targets[:, trial, channel],
            where="mid",
            color=INK,
            alpha=0.35,
            label=names[1],
        )
        ax.plot(step, offset + outputs[:, trial, channel], color=COLOURS["CR"], linewidth=1.8, label=names[2])
    ax.set(xlabel="step", yticks=[3.0 * k for k in range(channels)], ylim=(-1.8, 3.0 * channels - 1.2))
    ax.set_yticklabels([f"bit {channels - k}" for k in range(channels)])
    ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=3)
    return ax


def trial(trials: Trials, outputs, trial: int = 0, inputs=None, axes=None) -> np.ndarray:
    """One trial, a row a channel: inputs above, below them targets and one network's outputs (time, trial, out).

    Every input has a scale of its own, the same in all trials; outputs share one. Steps that do not count are shaded.
    `rollout` is for tasks whose inputs and outputs go in pairs.

    Parameters
    ----------
    trials : Trials
    outputs : array (time, trial, out)
    trial : int
    inputs : sequence of str, optional
        Names of the input channels; their numbers if absent.
    axes : two Axes, optional
        One above the other. In a figure of several columns only the first has names, and there is one legend.
    """
    largest = np.abs(trials.inputs).max(axis=(0, 1))
    scaled = trials.inputs / np.where(largest > 0, largest, 1)
    shown, targets, answers = scaled[:, trial], trials.targets[:, trial], np.asarray(outputs)[:, trial]
    if axes is None:
        heights = [max(panel.shape[1], 2) for panel in (shown, targets)]
        axes = plt.gcf().subplots(2, 1, sharex=True, height_ratios=heights)
    above, below = axes
    first_column = above.get_subplotspec().is_first_col()
    styles = {
        "input": {"color": INK, "linewidth": 1.2},
        "target": {"color": INK, "linewidth": 1.5, "alpha": 0.35},
        "output": {"color": COLOURS["CR"], "linewidth": 1.8},
    }
    if len(targets) > 30:  # many steps: a line says more than a staircase
        styles["output"]["drawstyle"] = "default"
    _rows(above, {"input": shown}, styles, inputs, low=scaled.min())
    _rows(below, {"target": targets, "output": answers}, styles)
    for ax in (above, below):
        for step in np.flatnonzero(~trials.mask):
            ax.axvspan(step - 0.5, step + 0.5, color=GREY, alpha=0.12, linewidth=0)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.tick_params(axis="y", labelleft=first_column, length=3.5 if ax is below and targets.shape[1] == 1 else 0)
    above.tick_params(labelbottom=False)
    below.set_xlabel("step")
    if first_column:
        above.set_ylabel("inputs")
        below.set_ylabel("output" if targets.shape[1] == 1 else "outputs")
    if not above.figure.legends:
        handles = [*above.get_legend_handles_labels()[0], *below.get_legend_handles_labels()[0]]
        above.figure.legend(handles=handles, loc="outside upper right", ncols=3)
    return np.array(axes)


def _rows(ax: Axes, panels: dict[str, np.ndarray], styles: dict[str, dict], names=None, low=0.0) -> None:
    """Arrays (time, channel), such as targets and outputs, over one another: a row a channel, named at its zero."""
    together = np.stack(list(panels.values()))
    channels = together.shape[2]
    names = [str(k + 1) for k in range(channels)] if names is None else list(names)
    if len(names) != channels:
        raise ValueError(f"there are {channels} channels, but {len(names)} names: {names}")
    low, high = min(low, together.min()), max(1.0, together.max())
    height = 1.35 * (high - low)
    places = height * np.arange(channels)[::-1]
    for channel, place in enumerate(places):
        ax.axhline(place, color=GREY, linewidth=0.5, alpha=0.5)
        for name, panel in panels.items():
            style = {"drawstyle": "steps-mid", "label": None if channel else name} | styles[name]
            ax.plot(place + panel[:, channel], **style)
    if channels == 1:  # keeps its numbers, and the limits that columns may share
        ax.margins(y=0.15)
        return
    ax.set_ylim(low - 0.25 * height, places[0] + high + 0.25 * height)
    ax.set_yticks(places, names)


def spectrum(schur: OrderedSchur, alpha: float = 0.9, ax: Axes | None = None) -> Axes:
    """Eigenvalues in the complex plane, leading sector and complement told apart, with the circle |z| = alpha."""
    ax = ax or plt.gca()
    rank = schur.sectors(alpha).rank
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 200))
    ax.plot(alpha * circle.real, alpha * circle.imag, color=GREY, linewidth=1, linestyle="--")
    leading = np.array([start < rank for start, _ in schur.blocks])
    for name, chosen in (("R", leading), ("C", ~leading)):
        values = schur.eigenvalues[chosen]
        values = np.concatenate([values, values[values.imag != 0].conj()])
        sector = "leading sector R" if name == "R" else "complement C"
        ax.plot(
            values.real,
            values.imag,
            "o",
            markersize=4,
            color=SECTORS[name],
            label=f"{sector} ({len(values)})",
        )
    ax.set(xlabel="real part", ylabel="imaginary part", aspect="equal")
    ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper")
    return ax


def schur_form(sectors: Sectors, ax: Axes | None = None) -> Axes:
    """Size of T block by block as an image, the sector lines, and the names of the couplings.

    A block between two eigenvalues has one colour, the root mean square of its entries. The signs of the columns of Q,
    and the axes in the plane of a pair, are arbitrary and differ between machines; this does not.
    """
    ax = ax or plt.gca()
    T, rank, n = _block_sizes(sectors.schur), sectors.rank, len(sectors.schur.T)
    image = ax.imshow(
        T,
        cmap="Purples",
        norm=SymLogNorm(T.max() / 100, vmin=0, vmax=T.max(), base=10),
        interpolation="none",
    )
    for line in (ax.axhline, ax.axvline):
        line(rank - 0.5, color=INK, linewidth=1)
    narrow = rank < n / 6  # no room inside the leading rows: name their blocks from above
    short = n - rank < n / 6  # nor inside the last columns: name C→R from above, CC from below
    middle = (n + rank) / 2
    places = {
        "RR": (rank / 2, -0.02 * n) if narrow else (0.7 * rank, 0.3 * rank) if short else (rank / 2, rank / 2),
        "CR": (middle, -0.02 * n if narrow or short else rank / 2),
        "CC": (middle, 1.02 * n) if short else (rank + 0.7 * (n - rank), rank + 0.3 * (n - rank)),
    }
    for name, (column, row) in places.items():
        if ("R" in name and rank == 0) or ("C" in name and rank == n):
            continue  # a sector is empty, and so is the block
        outside = row < 0 or row > n
        ax.text(
            column - 0.5,
            row - 0.5,
            name,
            color=COLOURS[name],
            weight="bold",
            ha="center",
            va="bottom" if row < 0 else "top" if row > n else "center",
            bbox=None if outside else {"facecolor": "white", "edgecolor": "none", "boxstyle": "round"},
        )
    ax.set(xlabel="source", ylabel="target", xticks=[], yticks=[])
    ax.figure.colorbar(image, ax=ax, label="size of T, by block", ticks=[0, 0.1, 1])
    return ax


def _block_sizes(schur: OrderedSchur) -> np.ndarray:
    """T (n, n) with every entry replaced by the root mean square of its block."""
    sizes = np.array([size for _, size in schur.blocks])
    block = np.repeat(np.arange(len(sizes)), sizes)
    member = np.eye(len(sizes))[block]
    mean_squares = member.T @ schur.T**2 @ member / np.outer(sizes, sizes)
    return np.sqrt(mean_squares)[np.ix_(block, block)]


def profile(table: pd.DataFrame, column: str = "delta_fvu", ax: Axes | None = None) -> Axes:
    """A column of an ablation profile against the set removed: every seed a point, the median a line."""
    ax = ax or plt.gca()
    order = [couplings for couplings in SETS if couplings or column not in ("delta_fvu", "sensitivity", "mass")]
    seeds = {seed: k for k, seed in enumerate(sorted(table["seed"].unique()))}
    for place, couplings in enumerate(order):
        rows = table[table["couplings"] == couplings]
        spread = 0.5 * (rows["seed"].map(seeds) / max(len(seeds) - 1, 1) - 0.5)
        colour = COLOURS.get(couplings, GREY)
        ax.plot(place + spread, rows[column], "o", markersize=4, color=colour, alpha=0.8)
        ax.hlines(rows[column].median(), place - 0.35, place + 0.35, color=INK, linewidth=1.5)
    if column in ("delta_fvu", "sensitivity"):
        _symmetric_log(ax, table[column])
    ax.set(xticks=range(len(order)), xlabel="couplings removed", ylabel=NAMES.get(column, column))
    ax.set_xticklabels([label(couplings) for couplings in order], rotation=30, ha="right", rotation_mode="anchor")
    return ax


def families(table: pd.DataFrame) -> np.ndarray:
    """What every network of many families loses with each coupling: ΔFVU and score, a row a family and coupling.

    Parameters
    ----------
    table : DataFrame
        Ablation profiles with the further columns family and harmless (bool). A ring is a network in which the removal
        is harmless, a dot one in which it is not, a bar the median of the networks that have something to remove, if
        they are more than two.

    Returns
    -------
    array of two Axes
        Of a figure of its own.
    """
    names = list(table["family"].unique())
    _, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(5.6, 1.3 * len(names) + 0.7), width_ratios=(1.5, 1))
    left.set_xscale("symlog", linthresh=1e-3, linscale=0.5)
    places = {}
    for block, family in enumerate(names):
        _note(left, family, 4 * block, weight="bold")
        for row, coupling in enumerate(COLOURS, start=1):
            place = 4 * block + row
            places[place] = coupling
            rows = table[(table["family"] == family) & (table["couplings"] == coupling)]
            there = rows[rows["sensitivity"].notna()]
            _row_of_points(left, there, "delta_fvu", place)
            _row_of_points(right, there, "score", place)
            if len(there) < len(rows):
                none = "nothing to remove" if there.empty else f"{len(there)} of {len(rows)} have any"
                _note(left, none, place, color=INK, size="small", style="italic")
    left.axvline(1, color=GREY, linewidth=0.8, linestyle="--")
    left.set(xlabel="ΔFVU", xlim=(0, 20), xticks=[0, 1e-3, 1e-2, 0.1, 1, 10], ylim=(4 * len(names) - 0.3, -0.5))
    left.minorticks_off()
    left.set_xticklabels(["0", ".001", ".01", ".1", "1", "10"])
    right.set(xlabel="score", xlim=(-0.05, 1.05), xticks=[0, 0.5, 1], xticklabels=["0", ".5", "1"])
    left.set_yticks(list(places), list(places.values()))
    for tick, coupling in zip(left.get_yticklabels(), places.values(), strict=True):
        tick.set(color=COLOURS[coupling], weight="bold")
    for ax in (left, right):
        ax.tick_params(axis="y", length=0)
        for block in range(1, len(names)):
            ax.axhline(4 * block - 0.45, color=GREY, linewidth=0.4)
    return np.array([left, right])


def _note(ax: Axes, text: str, place: float, **font) -> None:
    artist = ax.text(0.01, place, text, transform=ax.get_yaxis_transform(), va="center", **font)
    artist.set_in_layout(False)  # it may reach over the edge of its panel


def _row_of_points(ax: Axes, rows: pd.DataFrame, column: str, place: float) -> None:
    if rows.empty:
        return
    colour = COLOURS[rows["couplings"].iloc[0]]
    spread = np.linspace(-0.28, 0.28, len(rows)) if len(rows) > 1 else np.zeros(1)
    for harmless, fill in ((True, "white"), (False, colour)):
        chosen = (rows["harmless"] == harmless).to_numpy()
        if chosen.any():  # an empty line that is not clipped would count for the layout
            style = {"markersize": 4, "markerfacecolor": fill, "markeredgecolor": colour, "alpha": 0.85}
            ax.plot(rows[column][chosen], place + spread[chosen], "o", clip_on=False, **style)
    if len(rows) > 2:
        ax.vlines(rows[column].median(), place - 0.42, place + 0.42, color=INK, linewidth=1.8)


def orders(table: pd.DataFrame, column: str = "delta_fvu", ax: Axes | None = None) -> Axes:
    """A column of `order_range` against the network: a bar from least to largest over orders, order 0 a point."""
    ax = ax or plt.gca()
    places = {seed: k for k, seed in enumerate(sorted(table["seed"].unique()))}
    for shift, coupling in zip((-0.22, 0.0, 0.22), COUPLINGS, strict=True):
        rows = table[table["couplings"] == coupling]
        ends = rows.groupby("seed")[column].agg(["min", "max"])
        ax.vlines(ends.index.map(places) + shift, ends["min"], ends["max"], color=COLOURS[coupling], linewidth=2.5)
        first = rows[rows["order"] == 0]
        place = first["seed"].map(places) + shift
        ax.plot(place, first[column], "o", markersize=4, color=COLOURS[coupling], label=coupling)
    if column == "delta_fvu":
        if table[column].min() > 0.01:
            ax.set_yscale("log")
        else:
            _symmetric_log(ax, table[column])
        ax.set_ylim(top=1.5 * table[column].max())
    ax.set(xticks=range(len(places)), xlabel="seed", ylabel=NAMES.get(column, column))
    ax.set_xticklabels(places, rotation=90)
    return ax


def dose(table: pd.DataFrame, column: str = "delta_fvu", ax: Axes | None = None) -> Axes:
    """A column of `dose_response` against the mass removed: every network a line, their median a thick one.

    The median is drawn where at least half of the networks have the coupling.
    """
    ax = ax or plt.gca()
    for coupling in COUPLINGS:
        rows = table[table["couplings"] == coupling]
        for _, network in rows.groupby("seed"):
            ax.plot(network["mass"], network[column], color=COLOURS[coupling], alpha=0.35, linewidth=0.8)
        if rows["seed"].nunique() >= table["seed"].nunique() / 2:
            median = rows.groupby("dose")[["mass", column]].median()
            ax.plot(median["mass"], median[column], color=COLOURS[coupling], linewidth=2.5, label=coupling)
    ax.set(xlabel="mass removed", ylabel=NAMES.get(column, column))
    return ax


def against_chance(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """ΔFVU of every coupling against that of random removals of its size, from one null's rows of `size_matched`.

    A bar spans the 5th to the 95th percentile of a network's draws, its point is their median. Above the dashed line
    the coupling costs more than they do.
    """
    ax = ax or plt.gca()
    for coupling in COUPLINGS:
        rows = table[(table["couplings"] == coupling) & table["p"].notna()]
        colour = COLOURS[coupling]
        ax.hlines(rows["delta_fvu"], rows["low"], rows["high"], color=colour, linewidth=1, alpha=0.5)
        ax.plot(rows["median"], rows["delta_fvu"], "o", markersize=3.5, color=colour, label=coupling)
    ends = [0, 1.5 * table[["delta_fvu", "high"]].max(axis=None)]
    ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    ax.set_xscale("symlog", linthresh=1e-4, linscale=0.3)
    ax.set_yscale("symlog", linthresh=1e-4, linscale=0.3)
    ticks = [0, 1e-3, 1e-2, 0.1, 1, 10]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, ["0", ".001", ".01", ".1", "1", "10"])
        axis.set_minor_locator(NullLocator())
    ax.set(xlim=(-2e-5, ends[1]), ylim=(-2e-5, ends[1]), xlabel="ΔFVU of random removals", ylabel="ΔFVU")
    return ax


def _symmetric_log(ax: Axes, values: pd.Series) -> None:
    """A scale for what spans decades and may be slightly negative, with a line at zero."""
    ax.set_yscale("symlog", linthresh=1e-3)
    ax.set_ylim(bottom=min(0.0, 1.5 * values.min()))
    ax.axhline(0, color=GREY, linewidth=0.8)
