"""The realisation map of a smooth network: from its parameters to its values at points, with derivatives."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from tasksym import _checks

# ATen operations that are not twice differentiable. What a network calls is seen as it runs, so that a
# `torch.relu` inside `forward` is found as surely as an `nn.ReLU`.
KINKS = frozenset(
    "relu relu6 leaky_relu rrelu rrelu_with_noise prelu _prelu_kernel elu hardtanh hardswish hardsigmoid threshold "
    "hardshrink softshrink abs sign sgn clamp clamp_min clamp_max clip max min maximum minimum amax amin aminmax "
    "max_pool2d_with_indices floor ceil round trunc frac heaviside sort topk where argmax argmin median".split()
)
CHUNK = 1024  # points whose Jacobians are computed at once


class Realisation:
    """θ ↦ f_θ at points, of a float64 copy of a model in evaluation mode. Only what requires a gradient is in θ.

    Values and Jacobian rows are flat, (point × out,), the outputs of one point together.
    """

    def __init__(self, model: nn.Module, points: Tensor):
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
        self._model = copy.deepcopy(model).double().eval()
        free = {name: value.detach() for name, value in self._model.named_parameters() if value.requires_grad}
        if not free:
            raise ValueError("model has no parameter that requires a gradient, so that nothing can move")
        for name, value in [*self._model.named_parameters(), *self._model.named_buffers()]:
            _checks.finite(name, value.detach())
        self._shapes = {name: value.shape for name, value in free.items()}
        self.theta = torch.cat([value.flatten() for value in free.values()])
        _refuse_kinks(self._model, points)
        self.outputs = self.values(self.theta, points[:1]).numel()

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Each parameter tensor's name and its place in θ."""
        start = 0
        for name, shape in self._shapes.items():
            yield name, slice(start, start + shape.numel())
            start += shape.numel()

    def values(self, theta: Tensor, points: Tensor) -> Tensor:
        """f_θ(points), (point × out,)."""
        weights = {name: theta[place].view(self._shapes[name]) for name, place in self.parts()}
        return functional_call(self._model, weights, (points,)).reshape(-1)

    def jacobian(self, theta: Tensor, points: Tensor) -> Tensor:
        """∂f_θ(points)/∂θ, (point × out, parameter)."""

        def at_point(weights, point):
            return self.values(weights, point[None])

        rows = vmap(jacrev(at_point), in_dims=(None, 0), chunk_size=CHUNK)(theta, points)
        return rows.reshape(-1, len(theta)).detach()

    def change(self, theta: Tensor, direction: Tensor, points: Tensor) -> Tensor:
        """The Jacobian times a direction in θ, (point × out,), without the Jacobian."""
        return jvp(lambda weights: self.values(weights, points), (theta,), (direction,))[1].detach()

    def slope(self, theta: Tensor, points: Tensor, velocity: Tensor) -> Tensor:
        """The derivative of f_θ as the points move with a velocity (point, in): (point × out,)."""
        return jvp(lambda moving: self.values(theta, moving), (points,), (velocity,))[1].detach()

    def model(self, theta: Tensor) -> nn.Module:
        """The network with these parameters: a float64 copy that shares nothing with the one given."""
        made = copy.deepcopy(self._model)
        parameters = dict(made.named_parameters())
        with torch.no_grad():
            for name, place in self.parts():
                parameters[name].copy_(theta[place].view(self._shapes[name]))
        return made


class _Calls(TorchDispatchMode):
    """Notes the names of the ATen operations that run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@torch.no_grad()
def _refuse_kinks(model: nn.Module, points: Tensor) -> None:
    with _Calls() as calls:
        values = model(points[:1])
    if kinks := sorted(calls.names & KINKS):
        raise ValueError(
            f"the model calls {', '.join(kinks)}, which has a kink: its sensitivities jump there and no smooth flow "
            "follows them; use a smooth activation such as tanh, softplus or GELU"
        )
    if not isinstance(values, Tensor) or len(values) != 1:
        raise ValueError("the model must map points (point, in) to a tensor (point,) or (point, out)")
    _checks.finite("the model's output", values)
