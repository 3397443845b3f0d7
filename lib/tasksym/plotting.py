"""One house style for figures and tables. Each figure takes data, draws on an Axes and returns it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm

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
    """T as an image with a symmetric-log colour scale, the sector lines, and the names of the couplings."""
    ax = ax or plt.gca()
    T, rank, n = sectors.schur.T, sectors.rank, len(sectors.schur.T)
    largest = np.abs(T).max()
    image = ax.imshow(
        T,
        cmap="PuOr",
        norm=SymLogNorm(largest / 100, vmin=-largest, vmax=largest, base=10),
        interpolation="none",
    )
    for line in (ax.axhline, ax.axvline):
        line(rank - 0.5, color=INK, linewidth=1)
    narrow = rank < n / 6  # no room inside the leading rows: name their blocks from above
    middle = (n + rank) / 2
    places = {
        "RR": (rank / 2, -0.02 * n if narrow else rank / 2),
        "CR": (middle, -0.02 * n if narrow else rank / 2),
        "CC": (rank + 0.7 * (n - rank), rank + 0.3 * (n - rank)),
    }
    for name, (column, row) in places.items():
        ax.text(
            column - 0.5,
            row - 0.5,
            name,
            color=COLOURS[name],
            weight="bold",
            ha="center",
            va="bottom" if row < 0 else "center",
            bbox=None if row < 0 else {"facecolor": "white", "edgecolor": "none", "boxstyle": "round"},
        )
    ax.set(xlabel="source", ylabel="target", xticks=[], yticks=[])
    ax.figure.colorbar(image, ax=ax, label="entry of T", ticks=[-1, -0.1, 0, 0.1, 1])
    return ax


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


def _symmetric_log(ax: Axes, values: pd.Series) -> None:
    """A scale for what spans decades and may be slightly negative, with a line at zero."""
    ax.set_yscale("symlog", linthresh=1e-3)
    ax.set_ylim(bottom=min(0.0, 1.5 * values.min()))
    ax.axhline(0, color=GREY, linewidth=0.8)
