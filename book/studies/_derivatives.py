"""Derivatives by W_hh of what a trained network answers, for the studies that foretell what a removal does."""

from __future__ import annotations

import numpy as np
import torch

import tasksym as ts

TOGETHER = 8  # tangents that are rolled out at a time


def variance(trials: ts.Trials) -> float:
    """The denominator of the FVU."""
    targets = trials.targets[trials.mask].astype(np.float64)
    return float(((targets - targets.mean(axis=(0, 1))) ** 2).sum())


def gradient(solutions: ts.Solutions, network: int, trials: ts.Trials) -> np.ndarray:
    """∂FVU/∂W_hh (n, n), by one backward pass."""
    whole = solutions.weights.variants(network, solutions.weights.W_hh[network][None])
    slope = by_recurrent(whole, trials.inputs[None], trials.targets[None], trials.mask)[0]
    return slope * trials.targets[trials.mask].size / variance(trials)


def noise_gradients(solutions: ts.Solutions, network: int, trials: ts.Trials, rng) -> np.ndarray:
    """What a backward pass gives if random signs stand in place of the errors, one gradient a trial (trial, n, n).

    They are scaled so that Σ ⟨gradient, K⟩² over the trials estimates the curvature along K, as `curvature` gives it.
    """
    count = trials.inputs.shape[1]
    copies = solutions.weights.variants(network, solutions.weights.W_hh[network].expand(count, -1, -1))
    inputs = np.moveaxis(trials.inputs, 1, 0)[:, :, None]  # a network for every trial
    outputs = copies.outputs(inputs)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=tuple(outputs.shape)))
    slopes = by_recurrent(copies, inputs, outputs - signs, trials.mask)
    entries = trials.targets[trials.mask, 0].size
    return slopes * entries / 2 / np.sqrt(variance(trials))


def by_recurrent(networks: ts.TanhRNN, inputs, targets, mask) -> np.ndarray:
    """Gradient of the mean squared error by W_hh, of every network (network, n, n)."""
    W_hh = networks.W_hh.clone().requires_grad_()
    loss = ts.loss(ts.TanhRNN(networks.W_xh, W_hh, networks.W_hy), inputs, targets, mask).sum()
    return torch.autograd.grad(loss, W_hh)[0].numpy()


def curvature(
    solutions: ts.Solutions, network: int, removals: np.ndarray, trials: ts.Trials, compounded: bool = False
) -> np.ndarray:
    """‖J K‖² / variance for every removal K, where J K is the derivative of all outputs along K (Gauss–Newton).

    By a tangent rollout: u_t = (1 − h_t²) (W_hh u_{t−1} + K h_{t−1}). If compounded, K is also missing where the
    deviation is carried on, so that W_hh − K stands in place of W_hh: what removing K does to a network whose slopes
    1 − h_t² stay as they are.
    """
    whole = solutions.weights.variants(network, solutions.weights.W_hh[network][None])
    (states,), _ = whole.rollout(trials.inputs)
    W_hh, W_hy = whole.W_hh[0], whole.W_hy[0]
    found = np.zeros(len(removals))
    for start in range(0, len(removals), TOGETHER):
        K = torch.from_numpy(removals[start : start + TOGETHER])
        carry = (W_hh - K).mT if compounded else W_hh.T
        tangent, before = states.new_zeros(len(K), *states.shape[1:]), torch.zeros_like(states[0])
        for state, counts in zip(states, trials.mask, strict=True):
            tangent = (tangent @ carry).baddbmm_(before.expand(len(K), -1, -1), K.mT).mul_(1 - state**2)
            before = state
            if counts:
                found[start : start + TOGETHER] += (tangent @ W_hy.T).square().sum(dim=(1, 2)).numpy()
    return found / variance(trials)


def along(matrices: np.ndarray, removals: np.ndarray) -> np.ndarray:
    """Inner products ⟨matrix, K⟩ (..., pair)."""
    return matrices.reshape(*matrices.shape[:-2], -1) @ removals.reshape(len(removals), -1).T


def output_jacobian(solutions: ts.Solutions, network: int, trials: ts.Trials) -> torch.Tensor:
    """∂f/∂W_hh (output, n, n) for every output f of every trial that counts, in float64.

    One backward pass a trial carries all of its outputs along: with λ the derivative of an output by h_t and
    a_t = λ (1 − h_t²) that by the argument of tanh, ∂f/∂W_hh = Σ_t a_t h_{t−1}ᵀ. Outputs are ordered by trial, then by
    step, then by channel.
    """
    whole = solutions.weights.variants(network, solutions.weights.W_hh[network][None])
    (states,), _ = whole.rollout(trials.inputs)
    W_hh, W_hy = whole.W_hh[0], whole.W_hy[0]
    steps, outputs = np.flatnonzero(trials.mask), len(W_hy)
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]]).transpose(0, 1)
    slopes = (1 - states**2).transpose(0, 1)
    found = []
    for slope, earlier in zip(slopes, before, strict=True):
        by_state = W_hh.new_zeros(len(steps) * outputs, len(W_hh))
        by_argument = W_hh.new_zeros(len(by_state), steps[-1] + 1, len(W_hh))
        for step in range(steps[-1], -1, -1):
            here = outputs * np.searchsorted(steps, step)  # outputs of this step and of later ones
            if trials.mask[step]:
                by_state[here : here + outputs] += W_hy
            by_argument[here:, step] = by_state[here:] * slope[step]
            by_state[here:] = by_argument[here:, step] @ W_hh
        found.append(by_argument.mT @ earlier[: steps[-1] + 1])
    return torch.cat(found)
