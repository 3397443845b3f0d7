"""Damped least squares under the discrepancy rule: what a lift is, and how one is found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy.optimize
import torch
from torch import Tensor

FLOOR = 1e-7  # smallest √(λ/μ_max): below it, rounding of the Gram matrix speaks


@dataclass(frozen=True)
class Lift:
    """A direction in parameter space that moves the function as a target asks, and how well it does.

    Attributes
    ----------
    direction : Tensor (parameter,)
        c, with J c ≈ target.
    residual : float
        ‖Jc − target‖_w/‖target‖_w on the probes.
    regularisation : float
        √(λ/μ_max), with μ_max the largest eigenvalue of J_wᵀJ_w; 0 if λ = 0.
    dof : float
        Effective degrees of freedom, Σ_i μ_i/(μ_i + λ).
    norm : float
        ‖c‖. A small residual that costs a huge norm is no lift that anything could follow.
    held_out : float or None
        The residual where the direction was not fitted.
    """

    direction: Tensor
    residual: float
    regularisation: float
    dof: float
    norm: float
    held_out: float | None = None


@dataclass(frozen=True)
class Spectrum:
    """What the discrepancy rule needs of J_w and a target: eigenvalues, and the target along them."""

    eigenvalues: Tensor  # μ_i of J_wᵀJ_w
    directions: Tensor  # (parameter, i)
    along: Tensor  # z_i, the target's coefficients along J_w's left singular vectors
    outside: float  # squared norm of the target outside the range of J_w
    total: float  # squared norm of the target
    floor: float  # smallest trustworthy √(μ/μ_max)


def spectrum(J: Tensor, target: Tensor) -> Spectrum:
    """Through the singular values of J_w: slow, and exact where the residual is a rounding error."""
    U, s, Vt = torch.linalg.svd(J, full_matrices=False)
    z = U.T @ target
    outside = float((target - U @ z).square().sum())
    return Spectrum(s**2, Vt.T, z, outside, float(target.square().sum()), max(J.shape) * torch.finfo(J.dtype).eps)


def gram_spectrum(J: Tensor, target: Tensor) -> Spectrum:
    """Through the Gram matrix J_wᵀJ_w: several times faster; residuals below 1e-7 are lost."""
    mu, V = torch.linalg.eigh(J.T @ J)
    keep = mu > FLOOR**2 * mu[-1]
    mu, V = mu[keep], V[:, keep]
    z = (V.T @ (J.T @ target)) / mu.sqrt()
    total = float(target.square().sum())
    return Spectrum(mu, V, z, max(total - float(z.square().sum()), 0.0), total, FLOOR)


def solve_lift(J: Tensor, target: Tensor, tolerance: float, decompose=spectrum) -> Lift:
    """`lift` of weighted, checked arguments."""
    if not target.any():
        return Lift(torch.zeros(J.shape[1], dtype=J.dtype), 0.0, 0.0, 0.0, 0.0)
    found = decompose(J, target)
    mu, z = found.eigenvalues, found.along
    largest = float(mu.max()) if len(mu) else 0.0
    if not largest > 0:
        return Lift(torch.zeros(J.shape[1], dtype=J.dtype), 1.0, 0.0, 0.0, 0.0)
    if tolerance == 0:
        damping, inverse = 0.0, torch.where(mu > found.floor**2 * largest, 1 / mu.sqrt(), 0.0)
    else:
        damping = largest * 10 ** _discrepancy(
            mu / largest, z**2 / found.total, found.outside / found.total, tolerance
        )
        inverse = mu.sqrt() / (mu + damping)
    c = found.directions @ (inverse * z)
    return Lift(
        direction=c,
        residual=float(torch.linalg.vector_norm(J @ c - target)) / math.sqrt(found.total),
        regularisation=math.sqrt(damping / largest),
        dof=float((mu.sqrt() * inverse).sum()),
        norm=float(torch.linalg.vector_norm(c)),
    )


def _discrepancy(mu: Tensor, z2: Tensor, outside: float, tolerance: float) -> float:
    """log10 of the largest λ/μ_max whose relative residual is within the tolerance, by Brent's method."""

    def excess(log_damping: float) -> float:
        damping = 10**log_damping
        return math.sqrt(outside + float((z2 * (damping / (mu + damping)) ** 2).sum())) - tolerance

    low, high = 2 * math.log10(FLOOR), 12.0
    if excess(low) >= 0:
        return low
    return high if excess(high) <= 0 else scipy.optimize.brentq(excess, low, high, xtol=1e-10)
