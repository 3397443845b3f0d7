"""One-layer networks as others have them: with biases, a leak, another activation, an initial state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tasksym.networks import chunks, tanh_into

Activation = Callable[[Tensor, Tensor], object]  # fills its first argument, and may use up the second
ACTIVATIONS: dict[str, Activation] = {
    "tanh": tanh_into,
    "relu": lambda out, x: torch.clamp(x, min=0, out=out),
    "linear": lambda out, x: out.copy_(x),
}


@dataclass(frozen=True, eq=False)
class RateRNN:
    """One network, or variants of it with other recurrent matrices: the leading axis of `recurrent` counts them.

    h_t = (1 − a) h_{t−1} + a f(W_xh x_t + W_hh h_{t−1} + b_h) and y_t = W_hy h_t + b_y, all in float64. With a = 1,
    f = tanh and zeros for b_h, b_y and h_0 this is the network of arXiv 2606.18457.

    Parameters
    ----------
    W_xh : Tensor (1, hidden, in)
    recurrent : Tensor (variant, hidden, hidden)
    W_hy : Tensor (1, out, hidden)
    b_h : Tensor (hidden,)
    b_y : Tensor (out,)
    h_0 : Tensor (hidden,) or (trial, hidden)
    leak : float
        a, in (0, 1].
    activation : str
        Name in `ACTIVATIONS` of f.
    """

    W_xh: Tensor
    recurrent: Tensor
    W_hy: Tensor
    b_h: Tensor
    b_y: Tensor
    h_0: Tensor
    leak: float = 1.0
    activation: str = "tanh"

    @property
    def W_hh(self) -> Tensor:
        """The matrices of a step, (1 − a) I + a W_hh (variant, hidden, hidden): what is analysed.

        Where the slope of f is one, a step takes a small deviation to that matrix times it. It has the Schur vectors
        of the recurrent matrix, and its couplings are a times theirs. Its eigenvalues say how fast things decay in a
        step, which those of the recurrent matrix do not.
        """
        if self.leak == 1:
            return self.recurrent
        return (1 - self.leak) * torch.eye(self.recurrent.shape[-1], dtype=torch.float64) + self.leak * self.recurrent

    def variants(self, network: int, W_hh) -> RateRNN:
        """The same encoder and decoder around other matrices of a step (variant, hidden, hidden)."""
        W_hh = torch.as_tensor(W_hh, dtype=torch.float64)
        if self.leak != 1:
            W_hh = (W_hh - (1 - self.leak) * torch.eye(W_hh.shape[-1], dtype=torch.float64)) / self.leak
        return replace(self, recurrent=W_hh)

    @torch.no_grad()
    def outputs(self, inputs) -> Tensor:
        """Outputs (variant, time, trial, out) for inputs (time, trial, in)."""
        inputs = torch.as_tensor(inputs, dtype=torch.float64)
        outputs = torch.empty(len(self.recurrent), *inputs.shape[:2], self.W_hy.shape[1], dtype=torch.float64)
        for some, some_trials in chunks(len(self.recurrent), inputs.shape[1], 8 * self.W_xh.shape[1]):
            for step, h in enumerate(self._states(some, some_trials, inputs)):
                outputs[some, step, some_trials] = h @ self.W_hy.mT + self.b_y
        return outputs

    @torch.no_grad()
    def rollout(self, inputs) -> tuple[Tensor, Tensor]:
        """States (variant, time, trial, hidden) and outputs (variant, time, trial, out)."""
        inputs = torch.as_tensor(inputs, dtype=torch.float64)
        steps = self._states(slice(None), slice(None), inputs)
        states = torch.stack([h.clone() for h in steps], dim=1)
        return states, states @ self.W_hy[:, None].mT + self.b_y

    def _states(self, some: slice, some_trials: slice, inputs: Tensor) -> Iterator[Tensor]:
        """States (variant, trial, hidden) step after step, in one array that is overwritten."""
        drive = inputs[:, some_trials] @ self.W_xh.mT + self.b_h
        matrices, activate = self.recurrent[some].double().mT, ACTIVATIONS[self.activation]
        h = self.h_0 if self.h_0.ndim == 1 else self.h_0[some_trials]
        h = h.expand(len(matrices), *drive.shape[1:]).clone()
        argument = torch.empty_like(h)
        for step in drive:
            torch.baddbmm(step.expand_as(h), h, matrices, out=argument)
            if self.leak == 1:
                activate(h, argument)
            else:
                activate(argument, argument)
                h.lerp_(argument, self.leak)
            yield h
