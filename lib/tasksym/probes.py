"""Points that make up whole orbits of a rotation, and what the group does to a function that is known on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tasksym import _checks
from tasksym._realisation import Realisation

ROTATION = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)  # A, with e^{tA} the rotation by t
ORBIT_ERROR = 1e-9  # largest distance, in units of the largest probe, at which a probe still lies on its orbit


@dataclass(frozen=True)
class Action:
    """(g_t F)(x) = e^{tB} F(e^{−tA}x): inputs turn by A, outputs by B; B = 0 for invariant functions.

    Parameters
    ----------
    inputs : array or Tensor (in, in)
        A, skew-symmetric.
    outputs : array or Tensor (out, out) or None
        B, skew-symmetric.
    width, values : int
        in and out, against which the shapes are checked.
    """

    inputs: Tensor
    outputs: Tensor | None
    width: int
    values: int

    def __post_init__(self):
        object.__setattr__(self, "inputs", _skew("generator", self.inputs, self.width))
        if self.outputs is not None:
            object.__setattr__(self, "outputs", _skew("output_generator", self.outputs, self.values))

    def velocity(self, realisation: Realisation, theta: Tensor, points: Tensor) -> Tensor:
        """η = B F − DF·Ax, (point × out,)."""
        eta = -realisation.slope(theta, points, points @ self.inputs.T)
        return eta if self.outputs is None else eta + self._turned(realisation.values(theta, points), self.outputs)

    def moved(self, realisation: Realisation, theta: Tensor, points: Tensor, time: float) -> Tensor:
        """g_t F, (point × out,)."""
        values = realisation.values(theta, points @ torch.matrix_exp(-time * self.inputs).T)
        return values if self.outputs is None else self._turned(values, torch.matrix_exp(time * self.outputs))

    def average(self, values: Tensor, probes: Probes) -> Tensor:
        """P_E F, (probe × out,): turned back to where each orbit begins, averaged, and turned forth again."""
        on_orbits = values.view(-1, probes.angles, self.values)
        if self.outputs is None:
            return on_orbits.mean(1, keepdim=True).expand_as(on_orbits).reshape(-1)
        turns = _turns(self.outputs, probes.angles)
        home = torch.einsum("kji,okj->oi", turns, on_orbits) / probes.angles
        return torch.einsum("kij,oj->oki", turns, home).reshape(-1)

    def check_orbits(self, probes: Probes) -> None:
        """Raise unless every probe is the one before it, turned by 2π/angles."""
        on_orbits = probes.points.view(-1, probes.angles, self.width)
        expected = torch.einsum("kij,oj->oki", _turns(self.inputs, probes.angles), on_orbits[:, 0])
        off = float((on_orbits - expected).abs().max())
        if off > ORBIT_ERROR * float(probes.points.abs().max()):
            raise ValueError(
                f"the probes are no orbits of this generator: one lies {off:.2g} from where its orbit passes, so that "
                "the group average would be no projection; make them with orbit_probes or polar_probes"
            )

    def _turned(self, values: Tensor, matrix: Tensor) -> Tensor:
        return (values.view(-1, self.values) @ matrix.T).reshape(-1)


@dataclass(frozen=True)
class Probes:
    """Points that make up whole orbits of a one-parameter group, with quadrature weights.

    Parameters
    ----------
    points : array or Tensor (orbit × angle, in)
        The orbits one after the other, each of `angles` points, evenly spaced in the group.
    weights : array or Tensor (orbit × angle,)
        Positive, the same along an orbit; they are scaled to sum to one.
    angles : int
        Points in an orbit.

    Raises
    ------
    TypeError, ValueError
        If points are not finite, weights differ along an orbit, or the counts do not fit.
    """

    points: Tensor
    weights: Tensor
    angles: int

    def __post_init__(self):
        points = torch.as_tensor(_checks.real_array("points", self.points)).double()
        weights = torch.as_tensor(_checks.real_array("weights", self.weights)).double()
        angles = _checks.count("angles", self.angles, minimum=2)
        if points.ndim != 2 or len(points) == 0 or len(points) % angles:
            raise ValueError(f"points must be (orbit × {angles}, in), whole orbits, got {tuple(points.shape)}")
        if weights.shape != points.shape[:1] or not (weights > 0).all():
            raise ValueError(f"weights must be {len(points)} positive numbers, one a point")
        along = weights.view(-1, angles)
        if not torch.allclose(along, along[:, :1].expand_as(along), rtol=1e-9, atol=0):
            raise ValueError("weights must be the same along an orbit, or the group average is no projection")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights / weights.sum())


def orbit_probes(starts, generator, angles: int = 48, weights=None) -> Probes:
    """The orbits of some points under x ↦ e^{tA}x, at `angles` evenly spaced t in [0, 2π).

    Parameters
    ----------
    starts : array or Tensor (orbit, in)
    generator : array or Tensor (in, in)
        A, skew-symmetric with e^{2πA} = 1.
    angles : int
    weights : array or Tensor (orbit,), optional
        One an orbit; equal if absent.

    Returns
    -------
    Probes
    """
    starts = torch.as_tensor(_checks.real_array("starts", starts)).double()
    if starts.ndim != 2:
        raise ValueError(f"starts must be (orbit, in), got shape {tuple(starts.shape)}")
    A = _skew("generator", generator, starts.shape[1])
    angles = _checks.count("angles", angles, minimum=2)
    weights = np.ones(len(starts)) if weights is None else _checks.real_array("weights", weights)
    if weights.shape != (len(starts),):
        raise ValueError(f"weights must be one an orbit, ({len(starts)},), got shape {weights.shape}")
    turns = _turns(A, angles)
    points = torch.einsum("kij,oj->oki", turns, starts).reshape(-1, starts.shape[1])
    return Probes(points, np.repeat(weights, angles), angles)


def polar_probes(radius: float = 1.5, radii: int = 16, angles: int = 48) -> Probes:
    """Circles that fill a disc: Gauss–Legendre radii, with the area's weight r dr, times evenly spaced angles."""
    radius = _checks.number("radius", radius, open_low=True)
    nodes, quadrature = np.polynomial.legendre.leggauss(_checks.count("radii", radii))
    r = radius * (nodes + 1) / 2
    return orbit_probes(np.stack([r, np.zeros_like(r)], axis=1), ROTATION, angles, quadrature * r)


def group_average(values, probes: Probes, generator, output_generator=None) -> Tensor:
    """P_E F: the mean over the group of e^{tB} F(e^{−tA}x), the equivariant part of F on the probes.

    On orbits it is a plain mean, so that it is idempotent and w-orthogonal to rounding.

    Parameters
    ----------
    values : array or Tensor (probe × out,) or (probe, out)
        F at the probes.
    probes : Probes
        Orbits under `generator`.
    generator, output_generator
        A and B as for `orbit_velocity`.

    Returns
    -------
    Tensor, as `values`

    Raises
    ------
    TypeError, ValueError
        If the probes are not orbits of this generator, or shapes do not fit.
    """
    values = torch.as_tensor(_checks.real_array("values", values)).double()
    count = check_probes(probes).points.shape[0]
    if values.numel() == 0 or values.numel() % count or values.ndim > 2:
        raise ValueError(f"values must be ({count} × out,) or ({count}, out), got shape {tuple(values.shape)}")
    action = Action(generator, output_generator, probes.points.shape[1], values.numel() // count)
    action.check_orbits(probes)
    return action.average(values.reshape(-1), probes).view(values.shape)


def defect(values, probes: Probes, generator, output_generator=None) -> Tensor:
    """δ = F − P_E F: what of F is not equivariant. Arguments as for `group_average`."""
    average = group_average(values, probes, generator, output_generator)
    return torch.as_tensor(_checks.real_array("values", values)).double() - average


def check_probes(probes) -> Probes:
    """`probes`, or an error that says how to make some."""
    if not isinstance(probes, Probes):
        raise TypeError(f"probes must be Probes, from polar_probes or orbit_probes, got {type(probes).__name__}")
    return probes


def _turns(generator: Tensor, angles: int) -> Tensor:
    """e^{tA} at evenly spaced t in [0, 2π): (angle, n, n)."""
    times = 2 * math.pi / angles * torch.arange(angles, dtype=torch.float64)
    return torch.matrix_exp(times[:, None, None] * generator)


def _skew(name: str, matrix, size: int) -> Tensor:
    """`matrix` as a skew-symmetric Tensor (size, size) whose group has period 2π."""
    A = torch.as_tensor(_checks.real_array(name, matrix)).double()
    if A.shape != (size, size):
        raise ValueError(f"{name} must be ({size}, {size}), got shape {tuple(A.shape)}")
    if not torch.allclose(A, -A.T, rtol=0, atol=1e-12):
        raise ValueError(f"{name} must be skew-symmetric, so that it generates rotations")
    if not torch.allclose(torch.matrix_exp(2 * math.pi * A), torch.eye(size, dtype=A.dtype), rtol=0, atol=1e-9):
        raise ValueError(f"{name} must have period 2π, e^(2πA) = 1: its eigenvalues must be whole multiples of i")
    return A
