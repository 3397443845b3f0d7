"""Flows in parameter space along lifted symmetries: one carries the function round, the other makes it equivariant.

The source is A. Muriithi, V. Thapar, T. Berndt (2026). The step-size control in function space is this project's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm import tqdm

from tasksym import _checks
from tasksym._damped import Lift, gram_spectrum, solve_lift
from tasksym._realisation import Realisation
from tasksym.lifting import warn_few
from tasksym.probes import Action, Probes, check_probes, orbit_probes
from tasksym.training import one_thread

LIFT_TOLERANCE = {
    "orbit": 1e-3,
    "equivariance": 2e-2,
}  # a flow's kind and the residual that its directions are allowed
FIXED_STEPS = 64  # points on the way of a fixed flow; its direction is computed once
SHORTEST, LONGEST, FIRST = (
    1e-4,
    1 / 4,
    1 / 32,
)  # step lengths: the least, and the greatest and first as parts of the time
HELD_OUT_ORBITS, HELD_OUT_SEED = 42, 0  # with 48 angles, 2,016 points off the probes


@dataclass(frozen=True)
class Flow:
    """A path in parameter space, and what happens to the function on the way.

    Attributes
    ----------
    kind : str
        "orbit" or "equivariance".
    table : DataFrame
        One row a recorded step. `time`; `error`, the distance from the ideal flow; `defect`, ‖δ‖; `drift`, how far
        P_E f has moved; `distance`, ‖f − P_E f₀‖, which a collapse to a constant cannot make small. All these are in
        units of ‖f₀‖. `moved` is ‖θ − θ₀‖/‖θ₀‖. Of the lift at that step: `residual`, `held_out`, `norm`,
        `regularisation`, `dof`, as in `Lift`.
    thetas : Tensor (step, parameter)
    """

    kind: str
    table: pd.DataFrame
    thetas: Tensor
    _realisation: Realisation

    def model(self, step: int = -1) -> nn.Module:
        """The network at a recorded step, the last if none is named: a float64 copy."""
        return self._realisation.model(self.thetas[step])


def flow(
    model: nn.Module,
    kind: str,
    probes: Probes,
    generator,
    time: float,
    resolved: bool = True,
    tolerance: float = 1e-4,
    *,
    lift_tolerance: float | None = None,
    output_generator=None,
    held_out: Probes | None = None,
    progress: bool = True,
) -> Flow:
    """Move a network along a lifted symmetry.

    "orbit" follows c*(θ), which lifts the orbit velocity: ideally f_t(x) = e^{tB} f(e^{−tA}x).
    "equivariance" follows b*(θ), which lifts minus the defect: ideally δ_t = e^{−t} δ, with P_E f unmoved.

    A *resolved* flow computes the direction anew all the way, by the Bogacki–Shampine pair 2(3) with step lengths that
    keep the error *of the function* at each step within `tolerance`. A *fixed* flow follows the first direction.
    torch runs on one thread meanwhile, since small matrices lose with two; the setting is restored.

    Parameters
    ----------
    model : torch.nn.Module
        As for `jacobian`. It is not changed.
    kind : {"orbit", "equivariance"}
    probes : Probes
        Orbits under `generator`.
    generator : array or Tensor (in, in)
        A, skew-symmetric.
    time : float
        How far: an angle in radians for "orbit".
    resolved : bool
    tolerance : float
        Largest error of a step, ‖Δf‖_w/‖f₀‖_w. Where the defect is a small part of f, choose one that is small beside
        it, or steps undo what the flow does. Steps are never shorter than 1e-4.
    lift_tolerance : float, optional
        The tolerance of each `lift`; 1e-3 for "orbit" and 2e-2 for "equivariance" if absent.
    output_generator : array or Tensor (out, out), optional
        B, skew-symmetric.
    held_out : Probes, optional
        Other orbits, where the lifts' held-out residuals are measured. If absent, those of 42 random points of the
        ball that holds the probes (seed 0).
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    Flow

    Raises
    ------
    TypeError, ValueError
        If the kind is unknown, the probes are no orbits of the generator, the model has a kink or numbers that are
        not finite, or shapes do not fit.
    FloatingPointError
        If the flow leaves the finite numbers.

    Warns
    -----
    FewProbesWarning
        If there are fewer probe values than parameters.
    """
    if kind not in LIFT_TOLERANCE:
        raise ValueError(f'kind must be "orbit" or "equivariance", got {kind!r}')
    points = check_probes(probes).points
    time = _checks.number("time", time, open_low=True)
    tolerance = _checks.number("tolerance", tolerance, open_low=True)
    lift_tolerance = LIFT_TOLERANCE[kind] if lift_tolerance is None else lift_tolerance
    realisation = Realisation(model, points)
    action = Action(generator, output_generator, points.shape[1], realisation.outputs)
    held_out = _elsewhere(probes, action) if held_out is None else check_probes(held_out)
    for orbits in (probes, held_out):
        action.check_orbits(orbits)
    field = _Field(kind, realisation, action, probes, _checks.number("lift_tolerance", lift_tolerance, 0.0, 1.0))
    record = _Record(field, held_out)
    switch = {} if progress else {"disable": True}  # absent, so that TQDM_DISABLE keeps its say
    layout = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]"
    with tqdm(total=time, desc=f"{kind} flow", bar_format=layout, leave=False, **switch) as bar, one_thread():
        for reached, theta, lifted in _resolved(field, time, tolerance) if resolved else _fixed(field, time):
            record.add(reached, theta, lifted)
            bar.update(reached - bar.n)
    if (values := len(points) * realisation.outputs) < len(realisation.theta):
        warn_few(values, len(realisation.theta), record.rows[0]["residual"], record.rows[0]["held_out"], stacklevel=3)
    return Flow(kind, pd.DataFrame(record.rows), torch.stack(record.thetas), realisation)


@dataclass(frozen=True)
class _Field:
    """The direction that a flow follows, as a function of θ."""

    kind: str
    realisation: Realisation
    action: Action
    probes: Probes
    tolerance: float

    def target(self, theta: Tensor, probes: Probes) -> Tensor:
        """η, or −δ, on some orbits."""
        if self.kind == "orbit":
            return self.action.velocity(self.realisation, theta, probes.points)
        values = self.realisation.values(theta, probes.points)
        return self.action.average(values, probes) - values

    def lift(self, theta: Tensor) -> Lift:
        root = self.root()
        J = self.realisation.jacobian(theta, self.probes.points)
        return solve_lift(root[:, None] * J, root * self.target(theta, self.probes), self.tolerance, gram_spectrum)

    def root(self) -> Tensor:
        return self.probes.weights.sqrt().repeat_interleave(self.realisation.outputs)

    def norm(self, values: Tensor) -> float:
        return float(torch.linalg.vector_norm(self.root() * values))


def _resolved(field: _Field, time: float, tolerance: float):
    """(time, θ, lift) at each accepted step, by Bogacki–Shampine: a step's last direction is the next one's first."""
    theta, reached, step = field.realisation.theta, 0.0, FIRST * time
    lifted = field.lift(theta)
    scale = field.norm(field.realisation.values(theta, field.probes.points)) or 1.0
    yield reached, theta, lifted
    while reached < time:
        step = min(step, time - reached)
        k1 = lifted.direction
        k2 = field.lift(theta + step / 2 * k1).direction
        k3 = field.lift(theta + 3 * step / 4 * k2).direction
        moved = theta + step * (2 * k1 + 3 * k2 + 4 * k3) / 9
        after = field.lift(moved)
        doubt = step * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - after.direction / 8)
        # The doubt is in θ, where most directions do not matter. What counts is by how much it changes the function.
        third, second = (field.realisation.values(each, field.probes.points) for each in (moved, moved - doubt))
        error = field.norm(third - second) / scale
        if not np.isfinite(error):
            raise FloatingPointError(f"the {field.kind} flow leaves the finite numbers after time {reached:.3g}")
        if error <= tolerance or step <= SHORTEST:
            reached = time if step >= time - reached else reached + step
            theta, lifted = moved, after
            yield reached, theta, lifted
        growth = 0.9 * (tolerance / error) ** (1 / 3) if error > 0 else 5.0
        step = float(np.clip(step * np.clip(growth, 0.2, 5.0), SHORTEST, LONGEST * time))


def _fixed(field: _Field, time: float):
    """(time, θ, lift) along the first direction."""
    theta = field.realisation.theta
    lifted = field.lift(theta)
    for reached in np.linspace(0.0, time, FIXED_STEPS + 1):
        yield float(reached), theta + float(reached) * lifted.direction, lifted


class _Record:
    """What is written down at each step of a flow."""

    def __init__(self, field: _Field, held_out: Probes):
        self.field, self.held_out, self.rows, self.thetas = field, held_out, [], []
        self.start = field.realisation.theta
        self.values = field.realisation.values(self.start, field.probes.points)
        self.average = field.action.average(self.values, field.probes)
        self.scale = field.norm(self.values) or 1.0

    def ideal(self, time: float) -> Tensor:
        """Where the function should be."""
        field = self.field
        if field.kind == "orbit":
            return field.action.moved(field.realisation, self.start, field.probes.points, time)
        return self.average + np.exp(-time) * (self.values - self.average)

    def add(self, time: float, theta: Tensor, lifted: Lift) -> None:
        field = self.field
        values = field.realisation.values(theta, field.probes.points)
        average = field.action.average(values, field.probes)
        aim = field.target(theta, self.held_out)
        missed = field.realisation.change(theta, lifted.direction, self.held_out.points) - aim
        size = float(torch.linalg.vector_norm(aim))
        self.thetas.append(theta)
        self.rows.append(
            {
                "time": time,
                "error": field.norm(values - self.ideal(time)) / self.scale,
                "defect": field.norm(values - average) / self.scale,
                "drift": field.norm(average - self.average) / self.scale,
                "distance": field.norm(values - self.average) / self.scale,
                "moved": float(torch.linalg.vector_norm(theta - self.start) / torch.linalg.vector_norm(self.start)),
                "residual": lifted.residual,
                "held_out": float(torch.linalg.vector_norm(missed)) / size if size > 0 else 0.0,
                "norm": lifted.norm,
                "regularisation": lifted.regularisation,
                "dof": lifted.dof,
            }
        )


def _elsewhere(probes: Probes, action: Action) -> Probes:
    """Orbits of random points of the ball that holds the probes, uniform in volume."""
    rng = np.random.default_rng(HELD_OUT_SEED)
    inside = rng.normal(size=(HELD_OUT_ORBITS, action.width))
    inside *= (rng.uniform(size=(HELD_OUT_ORBITS, 1)) ** (1 / action.width)) / np.linalg.norm(
        inside, axis=1, keepdims=True
    )
    return orbit_probes(inside * float(probes.points.norm(dim=1).max()), action.inputs, probes.angles)
