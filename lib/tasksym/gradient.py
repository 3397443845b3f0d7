"""The masked squared error of an ensemble, with its gradient written out.

Autograd over a rollout keeps several arrays a step and reads each from memory again. Here the states are written once,
time first, so that the slice of a step is contiguous. The backward pass reuses two buffers, and adds to the gradients
of the weights while a slice is in cache.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasksym.networks import TanhRNN, tanh_


def loss(networks: TanhRNN, inputs, targets, mask) -> Tensor:
    """Mean squared error over the entries that count, one value a network.

    Differentiable, once, in the weights; not in the inputs.

    Parameters
    ----------
    networks : TanhRNN
    inputs : array or Tensor (network, time, trial, in)
    targets : array or Tensor (network, time, trial, out)
    mask : array or Tensor of bool
        Steps that count: (time,), or (network, time, trial) where trials end, or count, at steps of their own.

    Returns
    -------
    Tensor (network,)

    Raises
    ------
    ValueError
        If shapes disagree, or no step of a network counts.
    """
    inputs = networks.per_network(inputs)
    targets, mask = torch.as_tensor(targets, dtype=inputs.dtype), torch.as_tensor(mask)
    wanted = (*inputs.shape[:3], networks.W_hy.shape[1])
    if targets.shape != wanted:
        raise ValueError(f"targets must have shape (network, time, trial, out) = {wanted}, got {tuple(targets.shape)}")
    if mask.dtype != torch.bool or mask.shape not in (wanted[1:2], wanted[:3]):
        raise ValueError(
            f"mask must be boolean with shape (time,) = {wanted[1:2]} or (network, time, trial) = {wanted[:3]}; "
            f"got {mask.dtype} {tuple(mask.shape)}"
        )
    mask = mask[None, :, None] if mask.ndim == 1 else mask
    if not mask.flatten(1).any(dim=1).all():
        raise ValueError("mask must select at least one step of every network")
    time_first = (array.transpose(0, 1).contiguous() for array in (inputs, targets, mask))
    return MaskedSquaredError.apply(networks.W_xh, networks.W_hh, networks.W_hy, *time_first)


class MaskedSquaredError(torch.autograd.Function):
    """`loss` without checks and time first.

    Inputs (time, network, trial, in) and targets (time, network, trial, out) are contiguous; the mask broadcasts to
    (time, network, trial).
    """

    @staticmethod
    def forward(ctx, W_xh, W_hh, W_hy, inputs, targets, mask):
        counts = mask.flatten(1).any(dim=1)
        counted = counts.tolist()
        steps = int(counts.nonzero()[-1]) + 1  # what comes after the last step that counts has no say
        _, networks, trials, outputs = targets.shape
        states = inputs.new_empty(steps, networks, trials, W_hh.shape[1])
        errors = inputs.new_zeros(steps, networks, outputs, trials)  # outputs first: the products are 3 times as fast
        for step, state in enumerate(states):
            torch.bmm(inputs[step], W_xh.mT, out=state)
            if step:
                state.baddbmm_(states[step - 1], W_hh.mT)
            tanh_(state)
            if counted[step]:
                torch.bmm(W_hy, state.mT, out=errors[step]).sub_(targets[step].mT)
        errors.masked_fill_(~mask[:steps, :, None], 0)
        entries = mask.expand(-1, networks, trials).sum(dim=(0, 2)) * outputs
        ctx.save_for_backward(W_hh, W_hy, inputs, states, errors, entries)
        ctx.counted = counted
        return errors.square().sum(dim=(0, 2, 3)) / entries

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        W_hh, W_hy, inputs, states, errors, entries = ctx.saved_tensors
        errors = errors * (2 * upstream / entries)[:, None, None]
        to_W_xh = W_hh.new_zeros(len(W_hh), inputs.shape[3], W_hh.shape[1])  # transposed, for speed
        to_W_hh, to_W_hy = torch.zeros_like(W_hh), torch.zeros_like(W_hy)
        delta = torch.zeros_like(states[0])  # of the loss by the argument of tanh, one step later
        spare = torch.empty_like(delta)
        for step in reversed(range(len(states))):
            state = states[step]
            torch.bmm(delta, W_hh, out=spare)
            if ctx.counted[step]:
                spare.baddbmm_(errors[step].mT, W_hy)
                to_W_hy.baddbmm_(errors[step], state)
            torch.ops.aten.tanh_backward.grad_input(spare, state, grad_input=spare)  # times 1 − h²
            delta, spare = spare, delta
            to_W_xh.baddbmm_(inputs[step].mT, delta)
            if step:
                to_W_hh.baddbmm_(delta.mT, states[step - 1])
        return to_W_xh.mT, to_W_hh, to_W_hy, None, None, None
