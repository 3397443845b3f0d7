"""What the papers of the companion pages claim, judged by the rule of `ledger`: margins and the evidence for them.

Replicates are networks, as there; each was trained from a seed of its own.
"""

from __future__ import annotations

import functools
import itertools

import classifiers
import digits_layer
import language_model
import numpy as np
import pandas as pd
import torch
from ledger import STUDIES, Claim

import tasksym as ts

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

    def trained(self, column: str) -> pd.Series:
        """What the study of flows has of every trained classifier, by task and seed."""
        trained = self("symmetry_flows-networks").query("kind == 'trained'")
        return trained.set_index(["task", "seed"])[column]

    def quality(self, part: str, change: str) -> pd.DataFrame:
        """How well hats keep angular momentum, by seed."""
        rows = self("hamiltonian").query("system == 'hat' and part == @part and change == @change")
        return rows.dropna(subset="validation").set_index("seed")

    @functools.cache  # noqa: B019
    def shares(self, target: str, kind: str, tolerance: float) -> pd.Series:
        """W₁'s share of c* ("orbit") or b* ("equivariance"), by task and seed of the classifiers of a kind."""
        probes, found = ts.polar_probes(), {}
        for task, seed in itertools.product(classifiers.TASKS, classifiers.SEEDS):
            model = classifiers.classifier(task, seed, kind)
            J = ts.jacobian(model, probes.points)
            if target == "orbit":
                aim = ts.orbit_velocity(model, probes.points, ts.ROTATION)
            else:
                with torch.no_grad():
                    aim = -ts.defect(model(probes.points)[:, 0], probes, ts.ROTATION)
            direction = ts.lift(J, aim, probes.weights, tolerance).direction
            found[task, seed] = ts.attribution(model, J, direction, aim, probes.weights)["share"][0]
        return pd.Series(found)


def steadiness(e: Tables) -> pd.Series:
    """One, less how far W₁'s share of b* moves as the tolerance of the lift falls, of trained networks."""
    shares = pd.concat([e.shares("equivariance", "trained", tolerance) for tolerance in EPSILONS], axis=1)
    return 1 - (shares.max(axis=1) - shares.min(axis=1))


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
        lambda e: e.trained("line_minimum").loc["wedge"] - 0.1,
        lambda e: {"left at best": e.trained("line_minimum").loc["wedge"]},
    ),
    Claim(
        "A rounder Hamiltonian keeps its angular momentum (drift at least ten times less).",
        "three hats",
        lambda e: (
            np.log10(
                e.quality("none", "none")["momentum_mean"]
                / e.quality("both", "equivariance, resolved")["momentum_mean"]
            )
            - 1
        ),
        lambda e: {
            "drift before": e.quality("none", "none")["momentum_mean"],
            "after": e.quality("both", "equivariance, resolved")["momentum_mean"],
        },
    ),
    Claim(
        "The rotation becomes an action on the parameters (after a full turn θ is back, to 5 %).",
        "ten classifiers",
        lambda e: 0.05 - e.trained("turn_moved"),
        lambda e: {
            "‖Δθ‖/‖θ‖": e.trained("turn_moved"),
            "‖Δf‖/‖f‖": e.trained("turn_error"),
        },
    ),
    Claim(
        "The rotation is attributed to the first layer (share of c* above .9), which training made so.",
        "ten classifiers; room against shuffled labels",
        lambda e: e.shares("orbit", "trained", 1e-3) - 0.9,
        lambda e: {kind: e.shares("orbit", kind, 1e-3) for kind in classifiers.KINDS},
        control=lambda e: e.shares("orbit", "trained", 1e-3) - e.shares("orbit", "shuffled", 1e-3),
    ),
    Claim(
        "The lack of equivariance is attributed to parameters (W₁'s share of b* moves by less than one with ε).",
        "ten classifiers",
        steadiness,
        lambda e: {
            f"share at {tolerance:g}": e.shares("equivariance", "trained", tolerance) for tolerance in EPSILONS
        },
    ),
]


# --- Tensor similarity


def gauges(_: Tables) -> pd.DataFrame:
    """Random layers against copies that are spelled otherwise: permuted, swapped, rescaled. By seed."""
    rows = {}
    for seed in range(16):
        rng = np.random.default_rng(seed)
        layer = ts.Bilinear.random(8, 16, 4, rng=seed, dtype=torch.float64)
        D, L, R = (W.detach().numpy() for W in (layer.D, layer.L, layer.R))
        order, scale = rng.permutation(16), np.exp(rng.normal(size=(16, 1)))
        L, R, D = (L * scale)[order], (R / scale)[order], D[:, order]
        swap = rng.random(16)[:, None] < 0.5
        copy = ts.Bilinear(D, np.where(swap, R, L), np.where(swap, L, R))
        rows[seed] = {"similarity": float(ts.similarity(layer, copy)), "weights": float(ts.matrix_cosine(layer, copy))}
    return pd.DataFrame(rows).T


def swapped_blocks(_: Tables) -> pd.DataFrame:
    """Two residual blocks that do not see each other, against the same two in the other order. By seed."""
    rows = {}
    for seed in range(16):
        blocks = []
        for half, rng in ((slice(0, 3), 2 * seed), (slice(3, 6), 2 * seed + 1)):
            small = ts.Bilinear.random(3, 6, 3, rng=rng, dtype=torch.float64)
            D, L, R = np.zeros((6, 6)), np.zeros((6, 7)), np.zeros((6, 7))
            D[half] = small.D.detach()
            for W, of in ((L, small.L), (R, small.R)):
                W[:, 0], W[:, 1:][:, half] = of.detach()[:, 0], of.detach()[:, 1:]
            blocks.append(ts.Bilinear(D, L, R).with_residual())
        rows[seed] = {
            method: float(ts.similarity(blocks, blocks[::-1], method=method)) for method in ("closure", "exact")
        }
    return pd.DataFrame(rows).T


def when_learned(e: Tables) -> pd.DataFrame:
    """Similarities to the end, at the first checkpoint at which a network answers .99 of unseen pairs. By seed."""
    learned = e("grokking-checkpoints").query("kind == 'half'").groupby("seed")["learned"].first()
    to_end = e("grokking").query("kind == 'half' and other == other.max()")
    after = to_end[to_end["step"] >= to_end["seed"].map(learned)]
    return after.sort_values("step").groupby("seed").first()


def waves(e: Tables) -> pd.DataFrame:
    """At the end of training: the mass of waves in a + b − c, and how many carry nine tenths of it. By seed."""
    last = e("grokking-checkpoints").query("kind == 'half'").sort_values("step").groupby("seed").last()
    shares = last.filter(regex=r"^k\d+$")
    cumulated = np.cumsum(-np.sort(-shares, axis=1), axis=1) / shares.sum(axis=1).to_numpy()[:, None]
    return pd.DataFrame({"mass": shares.sum(axis=1), "many": (cumulated < 0.9).sum(axis=1) + 1}, index=last.index)


def backdoors(e: Tables, kind: str, measure: str) -> pd.DataFrame:
    """Of each output, by seed: similarity of a network trained on to the one that it was; the usual weight decay."""
    rows = e("backdoor").query("decay == decay.min() and kind == @kind and output != 'all'")
    return rows.pivot(index="seed", columns="output", values=measure)


def hits(e: Tables) -> pd.Series:
    rows = e("backdoor").query("decay == decay.min() and kind == 'poisoned' and output == '9'")
    return rows.set_index("seed")["hits"]


def forgetting(e: Tables, measure: str) -> pd.DataFrame:
    """Of each output, by seed: similarity after the 9 was dropped to before."""
    rows = e("forgetting").query("stage == 'drop 9' and output != 'all'")
    return rows.pivot(index="seed", columns="output", values=measure)


@functools.cache
def borders(e: Tables) -> pd.DataFrame:
    """Of every language model: whether n-grams come in order, and the share of other borders that suit it better."""
    rows = {}
    for key, points in e("language_model-checkpoints").groupby(["layers", "seed"]):
        pairs = e("language_model").set_index(["layers", "seed"]).loc[key].reset_index()
        near = language_model.stages(points)
        blocks = np.cumsum(np.diff(near, prepend=near[0]) != 0)
        M = language_model.square(pairs, "identity")
        own = language_model.separation(M, blocks)
        others = language_model.partitions(len(near), blocks[-1] + 1)
        better = np.mean([language_model.separation(M, each) > own for each in others])
        rows[key] = {"in order": float(set(near) == {1, 2, 3} and (np.diff(near) >= 0).all()), "better": better}
    return pd.DataFrame(rows).T


@functools.cache
def certificates(_: Tables) -> pd.DataFrame:
    """By which factor weights misjudge a truncated layer's distance from the whole; at the worst rank, by seed."""
    rows = pd.DataFrame([digits_layer.certify(seed, rank) for seed in digits_layer.SEEDS for rank in (1, 2, 4, 8)])
    off = rows[["moments", "N(0, I)"]].div(rows["measured"], axis=0)
    return np.exp(np.log(off).abs().groupby(rows["seed"]).max())


def ahead(table: pd.DataFrame) -> pd.Series:
    """By how much the 9 has moved more than any other output."""
    return table.drop(columns="9").min(axis=1) - table["9"]


TENSORS = [
    Claim(
        "Weights that spell the same function otherwise have similarity 1.",
        "sixteen layers and their copies",
        lambda e: 1e-9 - (1 - gauges(e)["similarity"]).abs(),
        lambda e: {"cosine of the weights": gauges(e)["weights"]},
        by_construction=True,
    ),
    Claim(
        "Similarity tells whether deep networks are one function, too (.99 where they are).",
        "two residual blocks in either order, the recursion of the paper, sixteen pairs",
        lambda e: swapped_blocks(e)["closure"] - 0.99,
        lambda e: {name: swapped_blocks(e)[name] for name in ("closure", "exact")},
    ),
    Claim(
        "Structure keeps moving after accuracy has saturated (similarity to the end below .9 when .99 is answered); "
        "behaviour does not show it.",
        "grokking, five networks; room of logits and CKA",
        lambda e: 0.9 - when_learned(e)["identity"],
        lambda e: {"similarity": when_learned(e)["identity"], "logits": when_learned(e)["logits"],
                   "CKA": when_learned(e)["cka"]},
        control=lambda e: when_learned(e)[["logits", "cka"]].min(axis=1) - 0.9,
    ),
    Claim(
        "The network turns to Fourier waves (more than half of its mass).",
        "grokking, five networks",
        lambda e: waves(e)["mass"] - 0.5,
        lambda e: {"mass": waves(e)["mass"]},
    ),
    Claim(
        "They are few (less than a quarter of the frequencies have nine tenths of the mass).",
        "grokking, five networks",
        lambda e: 26 / 4 - waves(e)["many"],
        lambda e: {"frequencies, of 26": waves(e)["many"]},
    ),
    Claim(
        "A backdoor shows in the weights, at the output that it serves, which clean training does not move.",
        "backdoors, five networks; room against clean training",
        lambda e: ahead(backdoors(e, "poisoned", "tensor")),
        lambda e: {"slice 9": backdoors(e, "poisoned", "tensor")["9"],
                   "after clean training": backdoors(e, "control", "tensor")["9"],
                   "the least of the others": backdoors(e, "poisoned", "tensor").drop(columns="9").min(axis=1)},
        control=lambda e: backdoors(e, "control", "tensor")["9"] - backdoors(e, "poisoned", "tensor")["9"],
    ),
    Claim(
        "Clean inputs do not show it (the 9's logits no more changed than those of another digit).",
        "backdoors, five networks",
        lambda e: -ahead(backdoors(e, "poisoned", "logit")),
        lambda e: {"cosine of the 9's logits": backdoors(e, "poisoned", "logit")["9"],
                   "the least of the others": backdoors(e, "poisoned", "logit").drop(columns="9").min(axis=1)},
    ),
    Claim(
        "The trigger can be read off the difference (at least four of the five pixels that change most).",
        "backdoors, five networks",
        lambda e: hits(e) - 3.5,
        lambda e: {"pixels": hits(e)},
    ),
    Claim(
        "Forgetting is localised to the digit that was dropped, and logits do not show it as well.",
        "forgetting, five networks; room of logits",
        lambda e: ahead(forgetting(e, "tensor")),
        lambda e: {"slice 9": forgetting(e, "tensor")["9"],
                   "the least of the others": forgetting(e, "tensor").drop(columns="9").min(axis=1),
                   "logits of the 9": forgetting(e, "logit")["9"]},
        control=lambda e: ahead(forgetting(e, "tensor")) - ahead(forgetting(e, "logit")),
    ),
    Claim(
        "A language model passes through single characters, pairs and triples, in this order.",
        "three models",
        lambda e: borders(e)["in order"] - 0.5,
        lambda e: {"in order (1 is yes)": borders(e)["in order"]},
    ),
    Claim(
        "The blocks of its checkpoint matrix are these stages (at most a twentieth of other borders suits it better).",
        "three models, Σ = I",
        lambda e: 0.05 - borders(e)["better"],
        lambda e: {"share of better borders": borders(e)["better"]},
    ),
    Claim(
        "How far a truncated layer is from the whole can be told from its weights (to a quarter, at four ranks).",
        "layers that read digits, five networks, the second moment of the digits",
        lambda e: 1.25 - certificates(e)["moments"],
        lambda e: {"off by a factor of": certificates(e)["moments"],
                   "under N(0, I)": certificates(e)["N(0, I)"]},
    ),
]  # fmt: skip
