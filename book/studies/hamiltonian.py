"""Leapfrog networks that learned a Hamiltonian from trajectories, and what symmetry flows do to them.

python book/studies/hamiltonian.py trains the networks (hamiltonian.safetensors) and measures the flows
(hamiltonian.csv), in some twenty minutes on one core; with --measure it only measures those that are shipped. Pages
read the networks through `leapfrog`; what training gives can differ between processors.
"""

from __future__ import annotations

import functools
import math
import sys

import _table
import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import tasksym as ts

SYSTEMS = ("hat", "tilted", "adaptable")  # those that networks were trained on
SEEDS = range(3)
TILT = 0.3
TRAINED, BETWEEN = (0.6, 0.8, 1.2, 1.4), 1.0  # values of c in the adaptable network's data, and one that is not
ENERGY = 1.0  # no start has more: the top of the hat, and it keeps orbits within r² ≤ c + 1
H, STEPS, FINE = 0.1, 10, 20  # time step, steps of a training trajectory, parts of a step in the true system
TRAJECTORIES, ITERATIONS, LEARNING_RATE = 200, 1500, 5e-3
WIDTH = {"T": 24, "V": 16, "V(c)": 24}  # four hats in one need more room than one
LONG, SHORT = 300, 100  # steps for the drift of the angular momentum, and for the distance from the true orbit
HELD_OUT = {"long": (1000, 64), "short": (2000, 400)}  # seed and number of starts that no network has seen
TOLERANCE, FINER = 1e-4, 2e-5  # of a step, in units of ‖V‖; finer where the defect is small beside it
TIME = {"orbit": math.pi / 2, "equivariance": 4.0}
PAIR = torch.block_diag(ts.ROTATION, ts.ROTATION)  # turns positions and momenta, or both parts of a force, together
BESIDE = torch.block_diag(ts.ROTATION, torch.zeros(1, 1, dtype=torch.float64))  # turns q and leaves c alone
COLUMNS = [
    "system", "seed", "part", "change", "c", "time",
    "error", "defect", "drift", "distance", "moved", "residual", "held_out", "norm", "regularisation", "dof",
    "momentum_mean", "momentum_worst", "trajectory", "validation",
]  # fmt: skip


PROVENANCE = {
    "seeds": list(SEEDS),
    "training": {
        "trajectories": TRAJECTORIES,
        "iterations": ITERATIONS,
        "learning_rate": LEARNING_RATE,
        "width": WIDTH,
    },
    "system": {"step": H, "steps": STEPS, "tilt": TILT, "trained": TRAINED, "between": BETWEEN, "energy": ENERGY},
    "flows": {"tolerance": [TOLERANCE, FINER], "time": TIME},
}


class Scalar(nn.Module):
    """An energy: inputs–width–width–1, tanh, in float64."""

    def __init__(self, inputs: int, width: int, rng: torch.Generator):
        super().__init__()
        self.first, self.second, self.last = (
            nn.Linear(many, few).double() for many, few in ((inputs, width), (width, width), (width, 1))
        )
        with torch.no_grad():
            for layer in self.children():
                bound = layer.in_features**-0.5
                for weights in (layer.weight, layer.bias):
                    weights.uniform_(-bound, bound, generator=rng)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))

    def slope(self, x: Tensor) -> Tensor:
        """The gradient by the first two inputs, (point, 2), written out so that it is differentiated like a layer."""
        low = torch.tanh(self.first(x))
        high = torch.tanh(self.second(low))
        back = (1 - low**2) * (((1 - high**2) * self.last.weight[0]) @ self.second.weight)
        return back @ self.first.weight[:, :2]


class Leapfrog(nn.Module):
    """H = T(p) + V(q), or V(q, c), advanced by leapfrog steps. Its state is (q, p), (point, 4)."""

    def __init__(self, T: nn.Module, V: nn.Module):
        super().__init__()
        self.T, self.V = T, V

    def kick(self, q: Tensor, c: Tensor | None = None) -> Tensor:
        """∇V at q, and at c if V has such a channel."""
        return self.V.slope(q if c is None else torch.cat([q, c.expand(*q.shape[:-1], 1)], -1))

    def rollout(self, state: Tensor, steps: int, c: Tensor | None = None, h: float = H) -> Tensor:
        """States (step + 1, point, 4), the start first. The kick that ends a step also begins the next one."""
        q, p = state[..., :2], state[..., 2:]
        states, kick = [state], self.kick(q, c)
        for _ in range(steps):
            p = p - h / 2 * kick
            q = q + h * self.T.slope(p)
            kick = self.kick(q, c)
            p = p - h / 2 * kick
            states.append(torch.cat([q, p], -1))
        return torch.stack(states)


class Force(nn.Module):
    """q ↦ −∇V(q), (point, 2) → (point, 2)."""

    def __init__(self, V: Scalar):
        super().__init__()
        self.V = V

    def forward(self, q: Tensor) -> Tensor:
        return -self.V.slope(q)


class Step(nn.Module):
    """(q, p) ↦ what one leapfrog step adds to it, divided by h. A step is equivariant if and only if this is."""

    def __init__(self, network: Leapfrog):
        super().__init__()
        self.network = network

    def forward(self, state: Tensor) -> Tensor:
        return (self.network.rollout(state, 1)[1] - state) / H


class TrueKinetic(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        return p.square().sum(-1, keepdim=True) / 2

    def slope(self, p: Tensor) -> Tensor:
        return p


class TrueHat(nn.Module):
    """V = (r² − c)² + tilt q₁."""

    def __init__(self, tilt: float = 0.0, c: float = 1.0):
        super().__init__()
        self.c, self.lean = c, torch.tensor([tilt, 0.0], dtype=torch.float64)

    def forward(self, q: Tensor) -> Tensor:
        return (q.square().sum(-1, keepdim=True) - self.c) ** 2 + (q @ self.lean)[..., None]

    def slope(self, q: Tensor) -> Tensor:
        return 4 * (q.square().sum(-1, keepdim=True) - self.c) * q + self.lean


class Averaged(nn.Module):
    """The slope of a scalar's mean over 48 rotations: what a perfect flow would end at."""

    def __init__(self, scalar: Scalar):
        super().__init__()
        self.scalar = scalar
        angles = 2 * math.pi / 48 * torch.arange(48, dtype=torch.float64)
        self.turns = torch.matrix_exp(angles[:, None, None] * ts.ROTATION)

    def slope(self, x: Tensor) -> Tensor:
        return (
            torch.einsum(
                "kji,k...j->...i", self.turns, self.scalar.slope(torch.einsum("kij,...j->k...i", self.turns, x))
            )
            / 48
        )


def true(system: str, c: float = 1.0) -> Leapfrog:
    """The system itself."""
    return Leapfrog(TrueKinetic(), TrueHat(TILT if system == "tilted" else 0.0, c))


def orbits(system: str, state: Tensor, steps: int, c: float = 1.0) -> Tensor:
    """True states (step + 1, point, 4): leapfrog again, with steps 20 times finer."""
    return true(system, c).rollout(state, steps * FINE, h=H / FINE)[::FINE]


def starts(seed: int, count: int, c: float = 1.0) -> Tensor:
    """States (point, 4), uniform in phase space where the untilted hat has H ≤ ENERGY."""
    rng = np.random.default_rng(seed)
    found = np.zeros((0, 4))
    while len(found) < count:
        reach = np.sqrt([c + 1, c + 1, 2, 2])
        states = rng.uniform(-1, 1, (8 * count, 4)) * reach
        energy = (states[:, 2:] ** 2).sum(1) / 2 + ((states[:, :2] ** 2).sum(1) - c) ** 2
        found = np.concatenate([found, states[energy <= ENERGY]])
    return torch.from_numpy(found[:count])


def examples(system: str, seed: int) -> tuple[Tensor, Tensor | None]:
    """Training trajectories (step + 1, trajectory, 4), and the c of each (trajectory, 1) for adaptable networks."""
    if system != "adaptable":
        return orbits(system, starts(seed, TRAJECTORIES), STEPS), None
    each = TRAJECTORIES // 2
    paths = [orbits(system, starts(seed + 100 * k, each, c), STEPS, c) for k, c in enumerate(TRAINED)]
    return torch.cat(paths, 1), torch.tensor(TRAINED, dtype=torch.float64).repeat_interleave(each)[:, None]


def network(system: str, seed: int) -> Leapfrog:
    """The start of that seed."""
    rng = torch.Generator().manual_seed(seed)
    T = Scalar(2, WIDTH["T"], rng)
    return Leapfrog(T, Scalar(3, WIDTH["V(c)"], rng) if system == "adaptable" else Scalar(2, WIDTH["V"], rng))


def train(system: str, seed: int, iterations: int = ITERATIONS) -> Leapfrog:
    """Mean squared error of whole rollouts, Adam with a cosine schedule."""
    paths, c = examples(system, seed)
    model = network(system, seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, iterations)
    for _ in range(iterations):
        optimiser.zero_grad()
        (model.rollout(paths[0], STEPS, c) - paths).square().mean().backward()
        optimiser.step()
        schedule.step()
    return centred(model, system)


def centred(model: Leapfrog, system: str) -> Leapfrog:
    """Energies are known up to a constant: shift them to mean zero over the probes, so that ‖V‖ is its spread."""
    with torch.no_grad():
        for part in ("T", "V"):
            scalar, where = getattr(model, part), probes(system, part)
            scalar.last.bias -= where.weights @ scalar(where.points)[:, 0]
    return model


def probes(system: str, part: str, c: tuple[float, ...] = TRAINED) -> ts.Probes:
    """Circles that fill the disc which the data can reach: r² ≤ 2 for momenta and one hat, r² ≤ c + 1 at each c."""
    several = system == "adaptable" and part == "V"
    disc = ts.polar_probes(math.sqrt(2), *((10, 32) if several else (16, 48)))
    if part == "step":
        return ts.orbit_probes(starts(3000, 24), PAIR, 24)
    if not several:
        return disc
    one = disc.points[:: disc.angles]
    circles = [torch.cat([math.sqrt((each + 1) / 2) * one, torch.full((len(one), 1), each)], 1) for each in c]
    return ts.orbit_probes(torch.cat(circles), BESIDE, disc.angles, disc.weights[:: disc.angles].repeat(len(c)))


def leapfrog(system: str, seed: int) -> Leapfrog:
    """The shipped network of a system and seed; "flowed" is that of the hat after its equivariance flows."""
    model, start = network(system, seed), f"{system}.{seed}."
    model.load_state_dict({k.removeprefix(start): v for k, v in _shipped().items() if k.startswith(start)})
    return model


@functools.cache
def _shipped() -> dict[str, Tensor]:
    return load_file(_table.FOLDER / "hamiltonian.safetensors")


def angular_momentum(states: Tensor) -> Tensor:
    """q₁p₂ − q₂p₁, (...,) of states (..., 4)."""
    return states[..., 0] * states[..., 3] - states[..., 1] * states[..., 2]


@torch.no_grad()
def momentum_drift(model: Leapfrog, c: float | None = None) -> Tensor:
    """Largest change of the angular momentum within 30 time units, (start,), at starts that no network has seen."""
    states = model.rollout(starts(*HELD_OUT["long"], c or 1.0), LONG, _channel(c))
    momentum = angular_momentum(states)
    return (momentum - momentum[0]).abs().amax(0)


@torch.no_grad()
def quality(model: Leapfrog, system: str, c: float | None = None) -> dict[str, float]:
    """Drift of the angular momentum, distance from the true orbits in 10 time units, and error of short rollouts."""
    moved = momentum_drift(model, c)
    states = model.rollout(starts(*HELD_OUT["long"], c or 1.0), SHORT, _channel(c))
    short = model.rollout(starts(*HELD_OUT["short"], c or 1.0), STEPS, _channel(c))
    away = (states - _reference(system, "long", SHORT, c or 1.0)).square().sum(-1).mean(0).sqrt()
    return {
        "momentum_mean": float(moved.mean()),
        "momentum_worst": float(moved.max()),
        "trajectory": float(away.mean()),
        "validation": float((short - _reference(system, "short", STEPS, c or 1.0)).square().mean().sqrt()),
    }


@functools.cache
def _reference(system: str, kind: str, steps: int, c: float) -> Tensor:
    return orbits(system, starts(*HELD_OUT[kind], c), steps, c)


def _channel(c: float | None) -> Tensor | None:
    return None if c is None else torch.tensor([c], dtype=torch.float64)


def flow(model: Leapfrog, system: str, part: str, kind: str, resolved: bool = True) -> ts.Flow:
    """A flow of T, V, the force or the whole step of a network."""
    component = Force(model.V) if part == "force" else Step(model) if part == "step" else getattr(model, part)
    generator, held_out, tolerance = ts.ROTATION, None, FINER
    if part == "step":
        generator, held_out = PAIR, ts.orbit_probes(starts(3001, 42), PAIR, 24)
    elif part == "V" and system == "adaptable":
        generator, held_out = BESIDE, probes(system, part, (BETWEEN,))
    if kind == "orbit" or system == "untrained" or (system, part) == ("tilted", "V"):
        tolerance = TOLERANCE
    elif part in ("force", "step"):
        tolerance = TOLERANCE / 2
    return ts.flow(
        component,
        kind,
        probes(system, part),
        generator,
        TIME[kind],
        resolved,
        tolerance,
        output_generator={"force": ts.ROTATION, "step": PAIR}.get(part),
        held_out=held_out,
        progress=False,
    )


def after(model: Leapfrog, part: str, flowed: ts.Flow, step: int = -1) -> Leapfrog:
    """The network with a part replaced by what a flow has made of it."""
    new = flowed.model(step)
    if part == "step":
        return new.network
    return Leapfrog(new, model.V) if part == "T" else Leapfrog(model.T, new.V if part == "force" else new)


def defect_at(V: Scalar, c: float) -> float:
    """‖δ‖/‖V‖ of an adaptable potential at one c, V centred there."""
    where = probes("adaptable", "V", (c,))
    with torch.no_grad():
        values = V(where.points)[:, 0]
    values = values - where.weights @ values
    delta = ts.defect(values, where, BESIDE)
    return float((where.weights @ delta**2).sqrt() / (where.weights @ values**2).sqrt())


FLOWS = {  # of which part, which kind, and whether resolved
    "hat": [
        ("V", "orbit", True), ("V", "orbit", False), ("V", "equivariance", True), ("V", "equivariance", False),
        ("T", "equivariance", True), ("force", "equivariance", True), ("step", "equivariance", True),
    ],
    "tilted": [("V", "equivariance", True), ("V", "equivariance", False), ("T", "equivariance", True)],
    "adaptable": [("V", "orbit", True), ("V", "equivariance", True), ("T", "equivariance", True)],
    "untrained": [("V", "orbit", True), ("V", "equivariance", True)],
}  # fmt: skip


def measure(system: str, seed: int, parts: tuple[str, ...] = ("V", "T", "force", "step")) -> pd.DataFrame:
    """A row a recorded step of every flow of some parts of a network, and rows for what the network then does.

    That is measured before, after resolved equivariance flows, and after fixed ones at time 1 and where their defect
    is least. "both" is T and V after their flows, "averaged" both after the mean over rotations.
    """
    model = centred(network("hat", seed), "hat") if system == "untrained" else leapfrog(system, seed)
    rows, ends = [], {}

    def judge(part: str, change: str, changed: Leapfrog) -> dict | None:
        if system == "untrained":
            return {}
        if system != "adaptable":
            return quality(changed, system)
        for c in (*TRAINED, BETWEEN):
            known = {"defect": defect_at(changed.V, c)} if isinstance(changed.V, Scalar) else {}
            rows.append({"part": part, "change": change, "c": c} | known | quality(changed, system, c))
        return {}

    before = judge("none", "none", model)
    if before:
        rows.append({"part": "none", "change": "none"} | before)
    for part, kind, resolved in FLOWS[system]:
        if part not in parts:
            continue
        flowed = flow(model, system, part, kind, resolved)
        change = f"{kind}, {'resolved' if resolved else 'fixed'}"
        table = flowed.table.to_dict("records")
        if kind == "equivariance" and resolved:
            ends[part] = after(model, part, flowed)
            table[-1] |= judge(part, change, ends[part])
        elif kind == "equivariance":
            for k in {int(np.argmin(flowed.table["defect"])), int(np.searchsorted(flowed.table["time"], 1.0))}:
                table[k] |= judge(part, change, after(model, part, flowed, k))
        elif system == "adaptable":
            rows.append({"part": part, "change": change, "c": BETWEEN, "error": turned_error(model.V, flowed.model())})
        rows += [{"part": part, "change": change} | row for row in table]
    if {"T", "V"} <= ends.keys():
        both = Leapfrog(ends["T"].T, ends["V"].V)
        rows.append(
            {"part": "both", "change": "equivariance, resolved"} | judge("both", "equivariance, resolved", both)
        )
    if system == "hat":
        rows.append(
            {"part": "both", "change": "averaged"} | quality(Leapfrog(*map(Averaged, (model.T, model.V))), system)
        )
    return pd.DataFrame(rows).assign(system=system, seed=seed).reindex(columns=COLUMNS)


def turned_error(V: Scalar, turned: Scalar) -> float:
    """‖V_t − V turned by t‖/‖V‖ at the c that is not among the probes, after an orbit flow."""
    where = probes("adaptable", "V", (BETWEEN,))
    back = torch.matrix_exp(-TIME["orbit"] * BESIDE).T
    with torch.no_grad():
        before, aim, values = V(where.points), V(where.points @ back), turned(where.points)
    before = before - where.weights @ before
    return float((where.weights @ (values - aim) ** 2).sqrt() / (where.weights @ before**2).sqrt())


def equivariant(model: Leapfrog, system: str) -> Leapfrog:
    """T and V after their resolved equivariance flows."""
    for part in ("T", "V"):
        model = after(model, part, flow(model, system, part, "equivariance"))
    return model


def main() -> None:
    torch.set_num_threads(1)
    if "--measure" not in sys.argv:
        trained = {(system, seed): train(system, seed) for system in SYSTEMS for seed in SEEDS}
        write({**trained, **{("flowed", seed): equivariant(trained["hat", seed], "hat") for seed in SEEDS}})
    table = _table.compute(measure, [(system, seed) for system in FLOWS for seed in SEEDS])
    _table.write("hamiltonian", table, **PROVENANCE)


def write(networks: dict[tuple[str, int], Leapfrog]) -> None:
    tensors = {
        f"{system}.{seed}.{name}": value
        for (system, seed), model in networks.items()
        for name, value in model.state_dict().items()
    }
    _table.write_networks("hamiltonian", tensors, **PROVENANCE)


if __name__ == "__main__":
    main()
