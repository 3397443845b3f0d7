"""One-layer tanh networks, many at once: the leading axis of every array counts networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from tasksym import _checks

CHUNK_BYTES = 2**20  # of states that are rolled out together without gradient: about one core's cache
MINUS_ONE = torch.tensor(-1.0)


@dataclass(frozen=True, eq=False)
class TanhRNN:
    """An ensemble of one-layer tanh networks without biases, started at h = 0.

    Each network computes h_t = tanh(W_xh x_t + W_hh h_{t-1}) and y_t = W_hy h_t (arXiv 2606.18457).

    Parameters
    ----------
    W_xh : Tensor (network, hidden, in)
    W_hh : Tensor (network, hidden, hidden)
    W_hy : Tensor (network, out, hidden)

    Raises
    ------
    TypeError, ValueError
        If a matrix is not floating, has a NaN or an infinity, or shapes disagree.
    """

    W_xh: Tensor
    W_hh: Tensor
    W_hy: Tensor

    def __post_init__(self):
        for field in fields(self):
            matrix = getattr(self, field.name)
            if not isinstance(matrix, Tensor) or not matrix.is_floating_point():
                kind = matrix.dtype if isinstance(matrix, Tensor) else type(matrix).__name__
                raise TypeError(f"{field.name} must be a floating torch.Tensor, got {kind}")
            if matrix.ndim != 3 or 0 in matrix.shape:
                raise ValueError(
                    f"{field.name} must have three axes, the first counting networks; got shape {tuple(matrix.shape)}"
                )
            _checks.finite(field.name, matrix)
        networks, hidden, _ = self.W_hh.shape
        expected = {
            "W_hh": (networks, hidden, hidden),
            "W_xh": (networks, hidden, self.W_xh.shape[2]),
            "W_hy": (networks, self.W_hy.shape[1], hidden),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {tuple(getattr(self, name).shape)}")
        if not self.W_xh.dtype == self.W_hh.dtype == self.W_hy.dtype:
            raise TypeError(
                f"the matrices must share one dtype, got {self.W_xh.dtype}, {self.W_hh.dtype} and {self.W_hy.dtype}"
            )

    def __len__(self) -> int:
        return len(self.W_hh)

    def to(self, dtype: torch.dtype) -> TanhRNN:
        """The same networks in another precision."""
        return TanhRNN(*(getattr(self, field.name).to(dtype) for field in fields(self)))

    def variants(self, network: int, W_hh) -> TanhRNN:
        """One network's encoder and decoder around other recurrent matrices (variant, hidden, hidden), in float64."""
        W_hh = torch.as_tensor(W_hh, dtype=torch.float64)
        encoder, decoder = (matrix[network].double().expand(len(W_hh), -1, -1) for matrix in (self.W_xh, self.W_hy))
        return TanhRNN(encoder, W_hh, decoder)

    def rollout(self, inputs) -> tuple[Tensor, Tensor]:
        """Run every network over whole trials; autograd can follow.

        Parameters
        ----------
        inputs : array or Tensor
            (time, trial, in), shared by all networks, or (network, time, trial, in).

        Returns
        -------
        states : Tensor (network, time, trial, hidden)
        outputs : Tensor (network, time, trial, out)
        """
        first, *later = (self.per_network(inputs) @ self.W_xh.mT[:, None]).unbind(dim=1)
        states = [torch.tanh(first)]
        for drive in later:
            states.append(torch.tanh(torch.baddbmm(drive, states[-1], self.W_hh.mT)))
        states = torch.stack(states, dim=1)
        return states, states @ self.W_hy.mT[:, None]

    @torch.no_grad()
    def outputs(self, inputs) -> Tensor:
        """Outputs (network, time, trial, out) of `rollout` alone, without gradient and without keeping the states.

        A few networks and trials are run at a time, so that their states stay in cache from one step to the next.
        """
        inputs = self.per_network(inputs)
        networks, steps, trials, _ = inputs.shape
        outputs = inputs.new_empty(networks, steps, trials, self.W_hy.shape[1])
        for some, some_trials in chunks(networks, trials, self.W_hh.shape[1] * self.W_hh.element_size()):
            self._outputs(some, inputs[some, :, some_trials], outputs[some, :, some_trials])
        return outputs

    def per_network(self, inputs) -> Tensor:
        """`inputs` as (network, time, trial, in) in the dtype of the weights."""
        inputs = torch.as_tensor(inputs, dtype=self.W_xh.dtype)
        wanted = self.W_xh.shape[2]
        if inputs.ndim not in (3, 4) or inputs.shape[-1] != wanted or 0 in inputs.shape:
            raise ValueError(
                f"inputs must have shape (time, trial, {wanted}) or ({len(self)}, time, trial, {wanted}), "
                f"got {tuple(inputs.shape)}"
            )
        if inputs.ndim == 4 and len(inputs) != len(self):
            raise ValueError(f"inputs hold {len(inputs)} networks' trials, but there are {len(self)} networks")
        return inputs.expand(len(self), *inputs.shape[-3:])

    def _outputs(self, some: slice, inputs: Tensor, outputs: Tensor) -> None:
        """Fill `outputs` for some of the networks, in place and step after step."""
        matrix, h, x, y = step_matrix(self.W_xh[some], self.W_hh[some], self.W_hy[some])
        steps = inputs.shape[1]
        before = inputs.new_zeros(len(matrix), inputs.shape[2], matrix.shape[1])
        after = torch.empty_like(before)
        for step in range(steps + 1):
            if step < steps:
                before[..., x] = inputs[:, step]
            torch.bmm(before, matrix.mT, out=after)
            if step > 0:
                outputs[:, step - 1] = after[..., y]
            tanh_into(before[..., h], after[..., h])


def chunks(networks: int, trials: int, state_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Networks and trials whose states take about `CHUNK_BYTES` together."""
    rows = max(1, CHUNK_BYTES // state_bytes)
    for trial in range(0, trials, rows):
        some_trials = slice(trial, min(trial + rows, trials))
        together = max(1, rows // (some_trials.stop - trial))
        for network in range(0, networks, together):
            yield slice(network, network + together), some_trials


def step_matrix(W_xh: Tensor, W_hh: Tensor, W_hy: Tensor) -> tuple[Tensor, slice, slice, slice]:
    """A step of every network as one product, which costs less than three, two of them narrow.

    Returns
    -------
    matrix : Tensor (network, width, width)
        [[W_hh, W_xh], [W_hy, 0]]: it takes (h_{t-1}, x_t) to (a_t, y_{t-1}), where h_t = tanh a_t. Zeros fill it up to
        a width that is a multiple of 4, for which products are faster.
    h, x, y : slice
        Where h or a, x and y stand.
    """
    networks, hidden, inputs = W_xh.shape
    outputs = W_hy.shape[1]
    h, x, y = slice(hidden), slice(hidden, hidden + inputs), slice(hidden, hidden + outputs)
    width = -(-max(x.stop, y.stop) // 4) * 4
    matrix = W_hh.new_zeros(networks, width, width)
    matrix[:, h, h], matrix[:, h, x], matrix[:, y, h] = W_hh, W_xh, W_hy
    return matrix, h, x, y


def tanh_into(out: Tensor, x: Tensor) -> None:
    """tanh of `x`, which is used up, as 2σ(2x) − 1, exact to 2 eps: torch's sigmoid takes half as long as its tanh."""
    torch.add(MINUS_ONE, torch.sigmoid(x.mul_(2), out=x), alpha=2, out=out)
