"""Inner products of stacks, layer after layer: exact for one layer, a closure for more (arXiv 2605.15183).

Everything here is on plain arrays: a layer is (D, L, R), lifted, in float64; a stack is a list of layers.
"""

from __future__ import annotations

import numpy as np

Layer = tuple[np.ndarray, np.ndarray, np.ndarray]
Pair = tuple[int, int]


def lifted(layer: Layer) -> Layer:
    """The layer with the unit (1)(1), which passes the constant on as the first input of the next one."""
    D, L, R = layer
    one = np.eye(1, L.shape[1])
    wider = np.zeros((1 + D.shape[0], 1 + D.shape[1]))
    wider[0, 0], wider[1:, 1:] = 1.0, D
    return wider, np.concatenate([one, L]), np.concatenate([one, R])


def grams(A: list[Layer], B: list[Layer], metric: str, norms: bool = True) -> dict[Pair, np.ndarray]:
    """Gram matrices (out, out) of A and B, for inputs whose second moment is the identity.

    Between layers they are the second moments of the hidden states, with the mean as the first row. To take these for
    all that there is to know of the states is the closure. The inputs of the first layer are Gaussian indeed.

    Returns
    -------
    dict
        Keys (0, 0) for A with A, (0, 1) for A with B, (1, 1) for B with B. The norms are left out without `norms`,
        unless they are computed anyway, and if A is B there is only (0, 0).
    """
    pairs = [(0, 0)] if A is B else [(0, 0), (0, 1), (1, 1)] if norms or metric == "gauss" else [(0, 1)]
    S: dict[Pair, np.ndarray | None] = dict.fromkeys(pairs)
    for layers in zip(A, B, strict=True):
        means = [_mean(layers[i], S[i, i]) if (i, i) in pairs and metric == "gauss" else None for i in (0, 1)]
        S = {
            (i, j): layers[i][0] @ _kernel(layers[i], layers[j], S[i, j], metric, means[i], means[j]) @ layers[j][0].T
            for i, j in pairs
        }
    return S


def _mean(layer: Layer, S: np.ndarray | None) -> np.ndarray:
    """Mean of every hidden unit (hidden,)."""
    _, L, R = layer
    return ((L if S is None else L @ S) * R).sum(axis=1)


def _kernel(a: Layer, b: Layer, S: np.ndarray | None, metric: str, mean_a, mean_b) -> np.ndarray:
    """Inner products of the hidden units of two layers (hidden of a, hidden of b)."""
    (_, L, R), (_, other_L, other_R) = a, b
    LS, RS = (L, R) if S is None else (L @ S, R @ S)
    straight = (LS @ other_L.T) * (RS @ other_R.T)
    if metric == "raw":
        return straight
    crossed = LS @ other_R.T
    crossed = crossed * (crossed.T if a is b else RS @ other_L.T)
    if metric == "sym":
        return (straight + crossed) / 2
    # Isserlis: three pairings of the four factors, less what the means are counted twice too often.
    row = (other_L[:, 0] * other_R[:, 0]) if S is None else (other_L @ S[0]) * (other_R @ S[0])
    return straight + crossed + np.outer(mean_a, mean_b) - 2 * np.outer(LS[:, 0] * RS[:, 0], row)
