"""Where the flows of small classifiers go: along the orbit of a rotation, and towards a network that ignores it.

python book/studies/symmetry_flows.py writes symmetry_flows.csv, a row a recorded step, symmetry_flows-networks.csv, a
row a network, and symmetry_flows.json, in about a quarter of an hour on one core. Norms are in units of ‖f₀‖ on the
probes, unless a column says otherwise.
"""

from __future__ import annotations

import copy
import math

import _table
import classifiers
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import tasksym as ts

TIMES = {"orbit": math.pi / 2, "equivariance": 4.0}
COARSE = 5e-2  # the looser lift of an equivariance flow
PROBES = ts.polar_probes()
OUTSIDE_ORBITS, OUTSIDE_SEED = 40, 1  # where a flow's function is looked at, besides the probes
THINNED = 4  # of the 65 points of a fixed flow every fourth is kept
LINE = np.linspace(0, 4, 641)  # where a fixed equivariance direction is tried
NAIVE_STEPS = 20  # of the midpoint rule
COLUMNS = ["task", "kind", "seed", "flow", "resolved", "time", "error", "defect", "drift", "distance", "moved"]
COLUMNS += ["residual", "held_out", "norm", "outside_error", "outside_defect", "accuracy", "turned"]


def networks() -> list[tuple[str, str, int]]:
    """Task, kind and seed of each network; untrained ones know no task."""
    known = [(task, kind, seed) for task in classifiers.TASKS for kind in classifiers.KINDS[:2] for seed in range(5)]
    return known + [("none", "untrained", seed) for seed in classifiers.SEEDS]


def network(task: str, kind: str, seed: int) -> nn.Sequential:
    return classifiers.classifier("wedge" if task == "none" else task, int(seed), kind)


def values(model: nn.Module, points) -> torch.Tensor:
    with torch.no_grad():
        return model(points)[:, 0]


def size(f, probes: ts.Probes = PROBES) -> float:
    return float((probes.weights * f**2).sum().sqrt())


def outside() -> ts.Probes:
    """Orbits of random points of the disc, uniform in area."""
    rng = np.random.default_rng(OUTSIDE_SEED)
    r = float(PROBES.points.norm(dim=1).max()) * rng.uniform(size=OUTSIDE_ORBITS) ** 0.5
    angle = rng.uniform(-np.pi, np.pi, OUTSIDE_ORBITS)
    return ts.orbit_probes(np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1), ts.ROTATION)


def ideal(model: nn.Module, flow: str, probes: ts.Probes, time: float) -> torch.Tensor:
    """Where f should be at some time."""
    if flow == "orbit":
        return values(model, probes.points @ torch.matrix_exp(-time * ts.ROTATION).T)
    f = values(model, probes.points)
    average = ts.group_average(f, probes, ts.ROTATION)
    return average + math.exp(-time) * (f - average)


def measure(task: str, kind: str, seed: int, flow: str, resolved: bool) -> pd.DataFrame:
    """One flow, a row a recorded step."""
    model, others = network(task, kind, seed), outside()
    path = ts.flow(model, flow, PROBES, ts.ROTATION, TIMES[flow], resolved, progress=False)
    steps = range(0, len(path.table), 1 if resolved else THINNED)
    table = path.table.iloc[list(steps)].reset_index(drop=True)
    whole = size(values(model, others.points), others)
    for row, step in enumerate(steps):
        moved, time = path.model(step), table.loc[row, "time"]
        f = values(moved, others.points)
        table.loc[row, "outside_error"] = size(f - ideal(model, flow, others, time), others) / whole
        table.loc[row, "outside_defect"] = size(ts.defect(f, others, ts.ROTATION), others) / whole
        if task != "none":
            table.loc[row, "accuracy"] = classifiers.accuracy(moved, task, seed)
            if flow == "orbit":
                table.loc[row, "turned"] = classifiers.accuracy(moved, task, seed, time)
    return table.assign(task=task, kind=kind, seed=seed, flow=flow, resolved=resolved).reindex(columns=COLUMNS)


def measure_network(task: str, kind: str, seed: int) -> pd.DataFrame:
    """What belongs to a network: its directions, the fixed line along b*, a whole turn, and two other lifts."""
    model = network(task, kind, seed)
    row = {"task": task, "kind": kind, "seed": seed}
    return pd.DataFrame([row | directions(model) | whole_turn(model) | other_lifts(model, kind)])


def directions(model: nn.Module) -> dict[str, float]:
    """c* and b* at the start, the angles between them, and where b* leads if it is followed as it stands."""
    f = values(model, PROBES.points)
    J = ts.jacobian(model, PROBES.points)
    eta = ts.orbit_velocity(model, PROBES.points, ts.ROTATION)
    delta = ts.defect(f, PROBES, ts.ROTATION)
    c, b = ts.lift(J, eta, PROBES.weights, 1e-3), ts.lift(J, -delta, PROBES.weights, 2e-2)
    along_c, along_b = J @ c.direction, J @ b.direction
    inner = float((PROBES.weights * along_c * along_b).sum())
    line = np.array([size(ts.defect(values(pushed(model, s * b.direction), PROBES.points), PROBES, ts.ROTATION))
                     for s in LINE]) / size(delta)  # fmt: skip
    return {
        "velocity": size(eta) / size(f),
        "defect": size(delta) / size(f),
        "c_norm": c.norm,
        "b_norm": b.norm,
        "cosine_parameters": float(c.direction @ b.direction) / (c.norm * b.norm),
        "cosine_functions": inner / (size(along_c) * size(along_b)),
        "line_minimum": line.min(),
        "line_time": LINE[line.argmin()],
        "line_at_one": line[np.searchsorted(LINE, 1.0)],
        "stretch_error": stretch_error(model, c.direction, f),
    }


def stretch_error(model: nn.Module, c: torch.Tensor, f: torch.Tensor) -> float:
    """Distance of the fixed orbit flow at its end from f((I − tA)x), which the exact lift −W₁A would give."""
    t = TIMES["orbit"]
    predicted = values(model, PROBES.points @ (torch.eye(2) - t * ts.ROTATION).T)
    return size(values(pushed(model, t * c), PROBES.points) - predicted) / size(f)


def whole_turn(model: nn.Module) -> dict[str, float]:
    """Twice π along the orbit: how far f is from its start, and θ."""
    end = ts.flow(model, "orbit", PROBES, ts.ROTATION, 2 * math.pi, progress=False).table.iloc[-1]
    return {"turn_error": end["error"], "turn_moved": end["moved"]}


def other_lifts(model: nn.Module, kind: str) -> dict[str, float]:
    """Equivariance flows of trained networks with a looser lift, and with (I − P_E)J in J's place."""
    if kind != "trained":
        return {}
    loose = ts.flow(model, "equivariance", PROBES, ts.ROTATION, 4.0, lift_tolerance=COARSE, progress=False).table
    f = values(model, PROBES.points)
    before = ts.group_average(f, PROBES, ts.ROTATION)
    g = values(naive_flow(model), PROBES.points)
    after = ts.group_average(g, PROBES, ts.ROTATION)
    return {
        "coarse_ratio": loose["defect"].iloc[-1] / loose["defect"].iloc[0],
        "coarse_drift": loose["drift"].iloc[-1],
        "coarse_norm": loose["norm"].max(),
        "coarse_moved": loose["moved"].iloc[-1],
        "naive_ratio": size(g - after) / size(f - before),
        "naive_drift": size(after - before) / size(f),
    }


def naive_flow(model: nn.Module) -> nn.Module:
    """To s = 4 by the midpoint rule, along the lift of −δ by (I − P_E)J, which does not see P_E f."""
    moving, step = copy.deepcopy(model), TIMES["equivariance"] / NAIVE_STEPS
    for _ in range(NAIVE_STEPS):
        middle = pushed(moving, step / 2 * naive_direction(moving))
        moving = pushed(moving, step * naive_direction(middle))
    return moving


def naive_direction(model: nn.Module) -> torch.Tensor:
    J = ts.defect(ts.jacobian(model, PROBES.points), PROBES, ts.ROTATION)
    delta = ts.defect(values(model, PROBES.points), PROBES, ts.ROTATION)
    return ts.lift(J, -delta, PROBES.weights, 2e-2).direction


def pushed(model: nn.Module, change: torch.Tensor) -> nn.Module:
    """A copy whose parameters are changed."""
    moved = copy.deepcopy(model)
    vector_to_parameters(parameters_to_vector(moved.parameters()).detach() + change, moved.parameters())
    return moved


def main() -> None:
    flows = [(*each, flow, resolved) for each in networks() for flow in TIMES for resolved in (True, False)]
    paths = _table.compute(measure, flows)
    found = _table.compute(measure_network, networks())
    facts = {"seeds": list(classifiers.SEEDS), "times": TIMES, "coarse": COARSE, "line": len(LINE)}
    _table.write("symmetry_flows-networks", found, **facts)
    _table.write("symmetry_flows", paths, **facts)


if __name__ == "__main__":
    main()
