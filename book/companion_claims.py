"""What the papers of the companion pages claim, judged by the rule of `ledger`: margins and the evidence for them.

Replicates are networks, as there; each was trained from a seed of its own.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import tasksym as ts

STUDIES = Path(__file__).parent / "studies"
sys.path += [] if str(STUDIES) in sys.path else [str(STUDIES)]

import classifiers  # noqa: E402 (a study, which pages import in the same way)
from ledger import Claim  # noqa: E402

IDEAL = np.exp(-4)  # what an equivariance flow should leave of a defect at s = 4
EPSILONS = (1e-1, 1e-2, 1e-3, 1e-4)  # tolerances of a lift


class Tables:
    """Tables of the studies, and what is computed from the shipped classifiers."""

    @functools.cache  # noqa: B019 (an object a page)
    def __call__(self, study: str) -> pd.DataFrame:
        return pd.read_csv(STUDIES / f"{study}.csv")

    def ends(self, flow: str, resolved: bool) -> pd.DataFrame:
        """Where a flow of each trained classifier and hat ended, by task and seed; ratio is what it left of δ."""
        flows = self("symmetry_flows").query("kind == 'trained' and flow == @flow and resolved == @resolved")
        hats = self("hamiltonian").query(
            f"system == 'hat' and part == 'V' and change == '{flow}, {'resolved' if resolved else 'fixed'}'"
        )
        paths = pd.concat([flows, hats.assign(task="hat")]).dropna(subset="time").sort_values("time", kind="stable")
        by_network = paths.groupby(["task", "seed"])
        best = paths[paths["time"] > 0].groupby(["task", "seed"])["defect"].min()
        return by_network.last().assign(
            ratio=by_network["defect"].last() / by_network["defect"].first(), best=best / by_network["defect"].first()
        )

    def quality(self, part: str, change: str) -> pd.DataFrame:
        """How well hats keep angular momentum, by seed."""
        rows = self("hamiltonian").query("system == 'hat' and part == @part and change == @change")
        return rows.dropna(subset="validation").set_index("seed")

    @functools.cache  # noqa: B019
    def shares(self, target: str) -> pd.DataFrame:
        """W₁'s share of c* ("orbit") or b* ("equivariance"): (task, kind, seed) × tolerance."""
        probes, rows = ts.polar_probes(), {}
        for task in classifiers.TASKS:
            for kind in classifiers.KINDS:
                for seed in classifiers.SEEDS:
                    model = classifiers.classifier(task, seed, kind)
                    J = ts.jacobian(model, probes.points)
                    with torch.no_grad():
                        delta = ts.defect(model(probes.points)[:, 0], probes, ts.ROTATION)
                    aim = ts.orbit_velocity(model, probes.points, ts.ROTATION) if target == "orbit" else -delta
                    lifts = {e: ts.lift(J, aim, probes.weights, e) for e in EPSILONS}
                    rows[task, kind, seed] = {
                        e: ts.attribution(model, J, lift.direction, aim, probes.weights)["share"][0]
                        for e, lift in lifts.items()
                    }
        return pd.DataFrame(rows).T.rename_axis(["task", "kind", "seed"])


def steadiness(shares: pd.DataFrame) -> pd.Series:
    """One, less how far a share moves as the tolerance falls, of trained networks."""
    trained = shares.xs("trained", level="kind")
    return 1 - (trained.max(axis=1) - trained.min(axis=1))


SENSITIVITY = [
    Claim(
        "A direction that lifts the rotation, followed as it changes, turns the function (by a quarter, to 1 %).",
        "ten classifiers, three hats",
        lambda e: 0.01 - e.ends("orbit", True)["error"],
        lambda e: {"error": e.ends("orbit", True)["error"]},
    ),
    Claim(
        "It keeps the defect (to 1 %).",
        "ten classifiers, three hats",
        lambda e: 0.01 - (e.ends("orbit", True)["ratio"] - 1).abs(),
        lambda e: {"defect after, of before": e.ends("orbit", True)["ratio"]},
    ),
    Claim(
        "A direction held fixed leaves the orbit (error above a tenth of f).",
        "ten classifiers, three hats",
        lambda e: e.ends("orbit", False)["error"] - 0.1,
        lambda e: {"error": e.ends("orbit", False)["error"]},
    ),
    Claim(
        "The direction that lifts minus the defect, followed as it changes, removes it (a twentieth at most is left).",
        "ten classifiers, three hats",
        lambda e: 0.05 - e.ends("equivariance", True)["ratio"],
        lambda e: {"left": e.ends("equivariance", True)["ratio"]},
    ),
    Claim(
        "It does so at its own pace (e⁻⁴ is left at s = 4, to a fifth).",
        "ten classifiers",
        lambda e: 0.2 - (e.ends("equivariance", True)["ratio"].drop("hat") / IDEAL - 1).abs(),
        lambda e: {"left": e.ends("equivariance", True)["ratio"].drop("hat")},
    ),
    Claim(
        "The same in a learned Hamiltonian (e⁻⁴ is left, to a fifth).",
        "three hats",
        lambda e: 0.2 - (e.ends("equivariance", True)["ratio"].loc["hat"] / IDEAL - 1).abs(),
        lambda e: {"left": e.ends("equivariance", True)["ratio"].loc["hat"]},
    ),
    Claim(
        "Held fixed, it fails (its best leaves more than a tenth of the defect).",
        "annulus and hats",
        lambda e: e.ends("equivariance", False)["best"].drop("wedge") - 0.1,
        lambda e: {"left at best": e.ends("equivariance", False)["best"].drop("wedge")},
    ),
    Claim(
        "Held fixed, it fails (its best leaves more than a tenth of the defect).",
        "wedge",
        lambda e: e("symmetry_flows-networks").query("task == 'wedge' and kind == 'trained'")["line_minimum"] - 0.1,
        lambda e: {
            "left at best": e("symmetry_flows-networks").query("task == 'wedge' and kind == 'trained'")["line_minimum"]
        },
    ),
    Claim(
        "A rounder Hamiltonian keeps its angular momentum (drift at least ten times less).",
        "three hats",
        lambda e: np.log10(
            e.quality("none", "none")["momentum_mean"] / e.quality("both", "equivariance, resolved")["momentum_mean"]
        )
        - 1,
        lambda e: {
            "drift before": e.quality("none", "none")["momentum_mean"],
            "after": e.quality("both", "equivariance, resolved")["momentum_mean"],
        },
    ),
    Claim(
        "The rotation becomes an action on the parameters (after a full turn θ is back, to 5 %).",
        "ten classifiers",
        lambda e: 0.05 - e("symmetry_flows-networks").query("kind == 'trained'")["turn_moved"],
        lambda e: {
            "‖Δθ‖/‖θ‖": e("symmetry_flows-networks").query("kind == 'trained'")["turn_moved"],
            "‖Δf‖/‖f‖": e("symmetry_flows-networks").query("kind == 'trained'")["turn_error"],
        },
    ),
    Claim(
        "The rotation is attributed to the first layer (share of c* above .9), which training made so.",
        "ten classifiers; room against shuffled labels",
        lambda e: e.shares("orbit").xs("trained", level="kind")[1e-3] - 0.9,
        lambda e: {kind: e.shares("orbit").xs(kind, level="kind")[1e-3] for kind in classifiers.KINDS},
        control=lambda e: (
            e.shares("orbit").xs("trained", level="kind")[1e-3] - e.shares("orbit").xs("shuffled", level="kind")[1e-3]
        ),
    ),
    Claim(
        "The lack of equivariance is attributed to parameters (W₁'s share of b* moves by less than one with ε).",
        "ten classifiers",
        lambda e: steadiness(e.shares("equivariance")),
        lambda e: {f"share at {tolerance:g}": e.shares("equivariance").xs("trained", level="kind")[tolerance]
                   for tolerance in EPSILONS},
    ),
]  # fmt: skip
