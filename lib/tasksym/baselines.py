"""What tensor similarity is measured against: comparisons of parameters, of activations and of behaviour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tasksym import _checks


def linear_cka(X, Y) -> float:
    """Linear centred kernel alignment of two sets of activations on the same samples.

    Parameters
    ----------
    X, Y : array or Tensor (sample, feature)
        Their features may differ in number.

    Returns
    -------
    float
        ‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖) of the centred activations, in [0, 1].

    Raises
    ------
    TypeError, ValueError
        If samples disagree, or activations are the same in all samples.

    References
    ----------
    Kornblith et al., Similarity of Neural Network Representations Revisited, 2019.
    """
    X, Y = (_checks.real_array(name, each).astype(np.float64) for name, each in (("X", X), ("Y", Y)))
    if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y):
        raise ValueError(f"X and Y must be (sample, feature), of the same samples; got {X.shape} and {Y.shape}")
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    for name, each in (("X", X), ("Y", Y)):
        if not each.any():
            raise ValueError(f"{name} is the same in all samples: the alignment is undefined")
    own, other = np.linalg.norm(X.T @ X), np.linalg.norm(Y.T @ Y)
    return float(np.linalg.norm(X.T @ Y) / own * (np.linalg.norm(X.T @ Y) / other))


def matrix_cosine(A, B) -> float:
    """Cosine of all parameters as one vector, which changes where the function does not.

    Parameters
    ----------
    A, B : torch Module, or list of them
        With parameters of the same shapes.

    Returns
    -------
    float
    """
    a, b = ([p.detach().double() for module in _listed(each) for p in module.parameters()] for each in (A, B))
    if [p.shape for p in a] != [p.shape for p in b]:
        raise ValueError("A and B must have parameters of the same shapes")
    return _cosine(*(torch.cat([p.flatten() for p in each]).numpy() for each in (a, b)))


@torch.no_grad()
def behavioural_cosine(A: Callable, B: Callable, inputs, outputs=None) -> float:
    """Cosine of the outputs, such as logits, over given inputs.

    Parameters
    ----------
    A, B : torch Module, or any function of `inputs`
    inputs : Tensor
    outputs : int or list of int, optional
        Compare these outputs, on the last axis, only.

    Returns
    -------
    float
    """
    a, b = (_checks.real_array(name, net(inputs)).astype(np.float64) for name, net in (("A(x)", A), ("B(x)", B)))
    if a.shape != b.shape:
        raise ValueError(f"A and B must have outputs of one shape, got {a.shape} and {b.shape}")
    if outputs is not None:
        a, b = a[..., outputs], b[..., outputs]
    return _cosine(a.ravel(), b.ravel())


def _listed(network) -> list[torch.nn.Module]:
    return [network] if isinstance(network, torch.nn.Module) else list(network)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = np.linalg.norm(a), np.linalg.norm(b)
    if 0 in norms:
        raise ValueError("the cosine with a vector of zeros is undefined")
    return float(a / norms[0] @ (b / norms[1]))
