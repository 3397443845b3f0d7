"""Networks as plain arrays, once checked: what the inner products of `tensors` are computed from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from tasksym import _checks
from tasksym._recursion import Layer, lifted
from tasksym.bilinear import Bilinear, BilinearStack, check_stack

METRICS = ("gauss", "sym", "raw")
METHODS = ("auto", "exact", "closure")
EXACT_DEPTH = 2
TOLERANCE = 1e-10  # relative to the largest entry of a second moment: how far below 0 rounding may put an eigenvalue


def prepared(A, B, metric, second_moment, method, outputs=None, *, same_outputs=False):
    """Both stacks as lifted arrays behind whitened inputs, with no outputs but those asked for; and the method."""
    for name, value, known in (("metric", metric, METRICS), ("method", method, METHODS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    stacks = matched(A, B, same_outputs)
    depth = len(stacks[0])
    if metric == "raw":
        method = "exact"  # at any depth: nothing is symmetrised
    if method == "exact" and depth > EXACT_DEPTH and metric != "raw":
        raise ValueError(
            f"method 'exact' knows stacks of at most {EXACT_DEPTH} layers, got {depth}; use 'closure', or monte_carlo"
        )
    if method == "auto":
        method = "exact" if depth <= EXACT_DEPTH else "closure"
    some = chosen(outputs, len(stacks[0][-1][0]))
    root = _root(second_moment, stacks[0][0][1].shape[1], metric)
    prepared = [_whitened(stack, some, root) for stack in stacks]
    return prepared[0], prepared[0] if A is B else prepared[1], metric, method


def matched(A, B, same_outputs: bool) -> tuple[list[Layer], list[Layer]]:
    a, b = _arrays("A", A), _arrays("B", B)
    if a[0][1].shape[1] != b[0][1].shape[1]:
        inputs = (stack[0][1].shape[1] - 1 for stack in (a, b))
        raise ValueError("A and B must take the same inputs, got {} and {} of them".format(*inputs))
    if len(a) != len(b):
        raise ValueError(
            f"A and B must be equally deep, got {len(a)} and {len(b)} layers; append Bilinear.identity(width) layers"
        )
    if same_outputs and len(a[-1][0]) != len(b[-1][0]):
        raise ValueError(f"A and B must have the same outputs, got {len(a[-1][0])} and {len(b[-1][0])} of them")
    return a, b


@torch.no_grad()
def _arrays(name: str, network) -> list[Layer]:
    """(D, L, R) of every layer in float64, with a column for the 1."""
    if isinstance(network, Bilinear):
        network = [network]
    elif isinstance(network, BilinearStack):
        network = network.folded()
    stack = []
    for place, layer in enumerate(check_stack(name, network)):
        layer, arrays = layer.lifted(), []
        for matrix in "DLR":
            arrays.append(getattr(layer, matrix).double().numpy())
            _checks.finite(f"{name}[{place}].{matrix}", arrays[-1])
        stack.append(tuple(arrays))
    return stack


def chosen(outputs, there: int) -> list[int] | slice:
    """What selects the outputs that are asked for, or all of them."""
    if outputs is None:
        return slice(None)
    outputs = list(outputs) if isinstance(outputs, Iterable) else [outputs]
    chosen = [_checks.count("outputs", each, minimum=0) for each in outputs]
    if not chosen or max(chosen) >= there:
        raise ValueError(f"outputs must name some of {there} outputs, 0 to {there - 1}; got {outputs}")
    return chosen


def semidefinite_root(second_moment, size: int, meaning: str) -> np.ndarray:
    """M with S = M Mᵀ for a second moment S, which is checked."""
    S = _checks.real_array("second_moment", second_moment).astype(np.float64)
    if S.shape != (size, size):
        raise ValueError(f"second_moment must be {meaning}, of shape {(size, size)}; got {S.shape}")
    small = TOLERANCE * np.abs(S).max()
    if np.abs(S - S.T).max() > small:
        raise ValueError("second_moment must be symmetric; average it with its transpose")
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    if values[0] < -small:
        raise ValueError(
            f"second_moment must be positive semi-definite, as {meaning} is, but has the eigenvalue {values[0]:.3g}"
        )
    return vectors * np.sqrt(np.clip(values, 0, None))


def _whitened(stack: list[Layer], some, root) -> list[Layer]:
    *inner, (D, L, R) = stack
    stack = [*map(lifted, inner), (D[some], L, R)]
    if root is not None:
        D, L, R = stack[0]
        stack[0] = D, L @ root, R @ root
    return stack


def _root(second_moment, size: int, metric: str) -> np.ndarray | None:
    """M with x̃ = M z̃ and E[z̃ z̃ᵀ] = I; under "gauss" z̃ = (1, z), too."""
    if second_moment is None:
        return None
    root = semidefinite_root(second_moment, size, "E[x̃ x̃ᵀ] of x̃ = (1, x)")
    if metric != "gauss":
        return root
    if abs((corner := root[0] @ root[0]) - 1) > TOLERANCE:
        raise ValueError(f"second_moment must have 1 in its corner, E[1 · 1], under 'gauss'; got {corner:.6g}")
    away = root[0] - np.eye(size)[0]
    if away.any():  # a reflection takes the first row, a unit vector, to that of the identity
        root = root - np.outer(root @ away, away) * (2 / (away @ away))
    return root
