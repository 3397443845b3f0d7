"""Functional sensitivity, and symmetries of a network's function lifted to directions in its parameters.

The source throughout is A. Muriithi, V. Thapar, T. Berndt, *Parameter-Level Attribution of Symmetry in Trained
Networks Through Parameter-Wise Functional Sensitivity* (2026), unless a docstring says otherwise.

Values are float64 and flat, (probe × out,), the outputs of one probe together; so are the rows of a Jacobian.
The inner product is ⟨u, v⟩_w = Σ_k w_k u_k·v_k over the probes k.
"""

from __future__ import annotations

import warnings

import pandas as pd
import torch
from torch import Tensor, nn

from tasksym import _checks
from tasksym._damped import Lift, solve_lift
from tasksym._realisation import Realisation
from tasksym.probes import Action

FOLDS = 5  # parts of the probes that are left out in turn where there are too few of them


class FewProbesWarning(UserWarning):
    """Fewer probe values than parameters: nearly every target can be met on the probes, and it proves nothing."""


def jacobian(model: nn.Module, points) -> Tensor:
    """The realisation map's differential J: the pointwise functional sensitivities S*_i(x_k) = ∂f_θ(x_k)/∂θ_i.

    Parameters
    ----------
    model : torch.nn.Module
        Smooth, from (point, in) to (point,) or (point, out). It is read in evaluation mode, in float64, and is not
        changed. Parameters that do not require a gradient are held fixed and have no column.
    points : array or Tensor (probe, in)

    Returns
    -------
    Tensor (probe × out, parameter)

    Raises
    ------
    TypeError, ValueError
        If the model calls a function with a kink, has nothing to train, or weights or points are not finite.
    """
    points = check_points(points)
    realisation = Realisation(model, points)
    return realisation.jacobian(realisation.theta, points)


def sensitivities(J, weights) -> Tensor:
    """The aggregated functional sensitivities S_i = (Σ_k w_k S*_i(x_k)²)^½, (parameter,)."""
    J, root = _weighted(J, weights)
    return torch.linalg.vector_norm(root[:, None] * J, dim=0)


def orbit_velocity(model: nn.Module, points, generator, output_generator=None) -> Tensor:
    """The direction η in which the symmetry carries the function: η = B F − DF·Ax.

    That is d/dt e^{tB} F(e^{−tA}x) at t = 0. Without `output_generator`, B = 0 and η = −∇f·(Ax).

    Parameters
    ----------
    model, points
        As for `jacobian`.
    generator : array or Tensor (in, in)
        A, skew-symmetric: how inputs turn.
    output_generator : array or Tensor (out, out), optional
        B, skew-symmetric: how outputs turn with them.

    Returns
    -------
    Tensor (probe × out,)
    """
    points = check_points(points)
    realisation = Realisation(model, points)
    action = Action(generator, output_generator, points.shape[1], realisation.outputs)
    return action.velocity(realisation, realisation.theta, points)


def lift(J, target, weights, tolerance: float = 1e-3, *, held_out=None) -> Lift:
    """The direction c with J c ≈ target of least norm that its tolerance allows.

    c_λ = (J_wᵀJ_w + λ)⁻¹ J_wᵀ target_w, with the largest λ whose relative residual is within the tolerance (the
    discrepancy rule of Morozov), and √(λ/μ_max) at least 1e-7. If no λ reaches the tolerance, the smallest is
    taken; the residual tells. With tolerance 0, c is the minimum-norm least-squares solution.

    Parameters
    ----------
    J : array or Tensor (probe × out, parameter)
        From `jacobian`.
    target : array or Tensor (probe × out,)
        The orbit velocity η, for c*; minus the defect, −δ, for b*.
    weights : array or Tensor (probe,)
    tolerance : float
        In [0, 1).
    held_out : tuple (J, target), optional
        The same at points that are not among the probes. The lift then says its residual there, unweighted.

    Returns
    -------
    Lift

    Raises
    ------
    TypeError, ValueError
        If numbers are not finite or shapes do not fit.

    Warns
    -----
    FewProbesWarning
        If there are fewer values than parameters. Without `held_out`, the residual is then measured by leaving out
        a fifth of the probes in turn.
    """
    J, root = _weighted(J, weights)
    target = _target(target, J)
    tolerance = _checks.number("tolerance", tolerance, 0.0, 1.0)
    few = len(J) < J.shape[1]
    found = solve_lift(root[:, None] * J, root * target, tolerance)
    if held_out is not None:
        other, aim = held_out
        other = torch.as_tensor(_checks.real_array("held_out J", other)).double()
        outside = residual(other, found.direction, aim)
    else:
        outside = _left_out(root[:, None] * J, root * target, tolerance, len(weights)) if few else None
    if few:
        warn_few(*J.shape, found.residual, outside, stacklevel=3)
    return Lift(found.direction, found.residual, found.regularisation, found.dof, found.norm, outside)


def residual(J, direction, target, weights=None) -> float:
    """‖J c − target‖/‖target‖ of any direction, at the probes or elsewhere; 0 if the target is zero.

    Parameters
    ----------
    J : array or Tensor (probe × out, parameter)
    direction : array or Tensor (parameter,)
    target : array or Tensor (probe × out,)
    weights : array or Tensor (probe,), optional
        Equal if absent.
    """
    J, root = _weighted(J, weights)
    target = _target(target, J)
    c = torch.as_tensor(_checks.real_array("direction", direction)).double()
    if c.shape != J.shape[1:]:
        raise ValueError(f"direction must be ({J.shape[1]},), one entry a parameter, got shape {tuple(c.shape)}")
    size = torch.linalg.vector_norm(root * target)
    return float(torch.linalg.vector_norm(root * (J @ c - target)) / size) if size > 0 else 0.0


def attribution(model: nn.Module, J, direction, target, weights) -> pd.DataFrame:
    """How much of a target each parameter tensor's part of a direction provides.

    The share of parameter i is a_i = c_i⟨J_i, target⟩_w/‖target‖²_w. Shares may be negative; those of a
    least-squares direction sum to 1 − residual². The magnitude is |c_i| S_i, how far the function moves along i,
    whether or not it is the right way.

    Parameters
    ----------
    model : torch.nn.Module
        Whose Jacobian J is.
    J, direction, target, weights
        As for `residual`.

    Returns
    -------
    DataFrame
        One row a parameter tensor: parameter, size (entries), share (summed), magnitude (root of summed squares).
    """
    J, root = _weighted(J, weights)
    target = root * _target(target, J)
    c = torch.as_tensor(_checks.real_array("direction", direction)).double()
    named = [(name, value.numel()) for name, value in model.named_parameters() if value.requires_grad]
    if not sum(size for _, size in named) == J.shape[1] == len(c):
        raise ValueError(
            f"J has {J.shape[1]} columns and the direction {len(c)} entries, but the model has "
            f"{sum(size for _, size in named)} parameters that require a gradient"
        )
    shares = c * ((root[:, None] * J).T @ target) / target.square().sum()
    magnitudes = c * sensitivities(J, weights)
    cuts = [size for _, size in named]
    return pd.DataFrame(
        {
            "parameter": [name for name, _ in named],
            "size": cuts,
            "share": [float(part.sum()) for part in shares.split(cuts)],
            "magnitude": [float(torch.linalg.vector_norm(part)) for part in magnitudes.split(cuts)],
        }
    )


def _left_out(J: Tensor, target: Tensor, tolerance: float, probes: int) -> float:
    """The relative residual on each fifth of the probes of the direction that the other four give."""
    fold = torch.arange(probes).repeat_interleave(len(J) // probes) % min(FOLDS, probes)
    missed = torch.zeros(len(J), dtype=J.dtype)
    for part in fold.unique():
        out = fold == part
        c = solve_lift(J[~out], target[~out], tolerance).direction
        missed[out] = J[out] @ c - target[out]
    return float(torch.linalg.vector_norm(missed) / torch.linalg.vector_norm(target))


def warn_few(values: int, parameters: int, residual: float, held_out: float, stacklevel: int) -> None:
    """Say that a residual on the probes means nothing, and what it is elsewhere."""
    warnings.warn(
        f"{values} probe values for {parameters} parameters: on the probes nearly every target can be met, so the "
        f"residual {residual:.1e} says nothing; where it was not fitted it is {held_out:.2g}. Take more probes",
        FewProbesWarning,
        stacklevel=stacklevel,
    )


def check_points(points) -> Tensor:
    """`points` as a float64 Tensor (point, in)."""
    points = torch.as_tensor(_checks.real_array("points", points)).double()
    if points.ndim != 2 or not points.numel():
        raise ValueError(f"points must be (point, in), at least one, got shape {tuple(points.shape)}")
    return points


def _weighted(J, weights) -> tuple[Tensor, Tensor]:
    """J, and the root of each row's weight: the probes' weights, scaled to sum to one, each for all its outputs."""
    J = torch.as_tensor(_checks.real_array("J", J)).double()
    if J.ndim != 2 or not J.numel():
        raise ValueError(f"J must be (probe × out, parameter), got shape {tuple(J.shape)}")
    if weights is None:
        return J, torch.full(J.shape[:1], len(J) ** -0.5, dtype=J.dtype)
    weights = torch.as_tensor(_checks.real_array("weights", weights)).double()
    if weights.ndim != 1 or not len(weights) or len(J) % len(weights) or not (weights > 0).all():
        raise ValueError(f"weights must be positive, one a probe, and J's {len(J)} rows a multiple of them")
    return J, (weights / weights.sum()).sqrt().repeat_interleave(len(J) // len(weights))


def _target(target, J: Tensor) -> Tensor:
    target = torch.as_tensor(_checks.real_array("target", target)).double().reshape(-1)
    if target.shape != J.shape[:1]:
        raise ValueError(f"target must be ({len(J)},), one entry a row of J, got {target.numel()} entries")
    return target
