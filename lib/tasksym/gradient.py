"""The masked squared error of an ensemble, with its gradient written out.

Autograd over a rollout keeps several arrays a step and reads each from memory again. Here a step is one product with
`step_matrix`, and so is a step back. Only (h_{t-1}, x_t) is kept, time first, so that the slice of a step is
contiguous. The gradient of all weights is that of the step matrix, to which every step adds a product while its slice
is in cache.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasksym.networks import TanhRNN, step_matrix, tanh_into

tanh_backward = torch.ops.aten.tanh_backward.grad_input


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
        steps = int(mask.flatten(1).any(dim=1).nonzero()[-1]) + 1  # what follows the last step that counts has no say
        inputs, targets, mask = inputs[:steps], targets[:steps], mask[:steps]
        matrix, h, x, y = step_matrix(W_xh, W_hh, W_hy)
        before = inputs.new_empty(steps + 1, *inputs.shape[1:3], matrix.shape[1])  # (h_{t-1}, x_t) at t = 1, …
        before[0, ..., h] = 0
        before[..., h.stop :] = 0
        before[:steps, ..., x] = inputs
        after = torch.empty_like(before[0])  # (a_t, y_{t-1})
        errors = torch.empty_like(targets)
        # Views are made once and not in every step, which would take a tenth of the time.
        before_at, state_before, error_at, target_at = map(Tensor.unbind, (before, before[..., h], errors, targets))
        argument, output, transposed = after[..., h], after[..., y], matrix.mT
        for step in range(steps + 1):
            torch.bmm(before_at[step], transposed, out=after)
            if step > 0:
                torch.sub(output, target_at[step - 1], out=error_at[step - 1])
            if step < steps:
                tanh_into(state_before[step + 1], argument)
        errors.masked_fill_(~mask[..., None], 0)
        entries = mask.expand(errors.shape[:3]).sum(dim=(0, 2)) * errors.shape[3]
        ctx.save_for_backward(matrix, before, errors, entries)
        ctx.parts = h, x, y
        return errors.square().sum(dim=(0, 2, 3)) / entries

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        matrix, before, errors, entries = ctx.saved_tensors
        h, x, y = ctx.parts
        errors = errors * (2 * upstream / entries)[:, None, None]
        gradient = torch.zeros_like(matrix)
        by_after = torch.zeros_like(before[0])  # of the loss by (a_{t+1}, y_t)
        before_at, state_before, error_at = map(Tensor.unbind, (before, before[..., h], errors))
        by_argument, by_output, transposed, from_state = (
            by_after[..., h],
            by_after[..., y],
            by_after.mT,
            matrix[..., h],
        )
        by_state = torch.empty(by_argument.shape, dtype=matrix.dtype)
        for step in range(len(errors), 0, -1):
            by_output.copy_(error_at[step - 1])
            torch.bmm(by_after, from_state, out=by_state)
            gradient.baddbmm_(transposed, before_at[step])
            tanh_backward(by_state, state_before[step], grad_input=by_argument)  # times 1 − h²
        gradient.baddbmm_(transposed, before_at[0])  # where h is zero, so that only x has a share
        return gradient[:, h, x], gradient[:, h, h], gradient[:, y, h], None, None, None
