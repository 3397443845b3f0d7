"""Tensor similarity of bilinear attention: every output is a polynomial of the inputs at all positions before it.

Position s acts on position t through five factors: q₁ and q₂ take x_t, and k₁, k₂ and v take x_s. An inner product of
two such tensors pairs the factors of one with those of the other, in every way that the symmetrisation allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch

from tasksym import _checks
from tasksym._stacks import METHODS, chosen, semidefinite_root
from tasksym.attention import AttentionStack, BilinearAttention, rotations
from tasksym.bilinear import check_modules
from tasksym.tensors import Measure, cosine, finite

EXACT_DEPTH = 1
VALUE = 4  # slots in order: q₁, q₂, k₁, k₂, v
PARTNER = (2, 3, 0, 1, VALUE)  # the slot that shares an index: q and k of one score
TOGETHER = tuple(permutations(range(5)))  # pairings where s = t: all five factors take one position
APART = tuple(match for match in TOGETHER if set(match[:2]) == {0, 1})  # and where s < t


def attention_gram(A, B, positions: int, second_moment=None, method: str = "auto") -> np.ndarray:
    """Inner products of every output of A with every output of B, at every position.

    Parameters
    ----------
    A, B : BilinearAttention, AttentionStack or list of BilinearAttention
        Of one depth, on the same inputs.
    positions : int
        Length of the context.
    second_moment : array (in, in), optional
        E[x xᵀ] of the input at one position, which weighs its directions: for one-hot inputs diag(p). The identity, if
        not given.
    method : str
        "exact", for one layer: of the fully symmetrised polynomials. "closure", layer by layer: averages over the swap
        of the two scores alone, and takes what comes from different positions to be orthogonal. "auto": exact for one
        layer, closure for more.

    Returns
    -------
    array (position, out of A, out of B), float64

    Raises
    ------
    TypeError, ValueError
        If networks do not fit each other, weights or moments are not finite, the second moment is none, a name is
        unknown, or exactness is asked for beyond one layer.
    """
    A, B, method = _prepared(A, B, positions, second_moment, method)
    return _gram(A, B, method)


def attention_similarity(A, B, positions: int, outputs=None, second_moment=None, method: str = "auto") -> Measure:
    """Cosine of two attention networks in the inner product of `attention_gram`, summed over outputs and positions.

    Parameters
    ----------
    A, B, positions, second_moment, method
        As for `attention_gram`.
    outputs : int or iterable of int, optional
        Compare these outputs only.

    Returns
    -------
    Measure
        A float in [-1, 1], with the attributes metric, which is "sym", and method ("exact" or "closure").

    Raises
    ------
    TypeError, ValueError
        As `attention_gram`; and if the numbers of outputs differ, or a network is zero on these outputs.
    """
    A, B, method = _prepared(A, B, positions, second_moment, method, outputs)
    if len(A.head) != len(B.head):
        raise ValueError(f"A and B must have the same outputs, got {len(A.head)} and {len(B.head)} of them")
    aa, ab, bb = (np.einsum("tii->", _gram(*pair, method)) for pair in ((A, A), (A, B), (B, B)))
    return Measure(cosine(aa, ab, bb), "sym", method)


@dataclass(frozen=True, eq=False)
class _Layer:
    """One layer as arrays, in float64.

    Parameters
    ----------
    factors : array (slot, position, head, size, width)
        What takes x to q, k and v, with rotations inside.
    O : array (head, width, size)
        Over size², by which scores are divided.
    residual : bool
    """

    factors: np.ndarray
    O: np.ndarray  # noqa: E741
    residual: bool


@dataclass(frozen=True, eq=False)
class _Network:
    layers: list[_Layer]
    embedding: np.ndarray  # (width, in), behind whitened inputs
    head: np.ndarray  # (out, width)


@np.errstate(over="ignore", invalid="ignore")
def _gram(A: _Network, B: _Network, method: str) -> np.ndarray:
    positions = A.layers[0].factors.shape[1]
    state = np.broadcast_to(A.embedding @ B.embedding.T, (positions, len(A.embedding), len(B.embedding)))
    added = _exact if method == "exact" else _closure
    for a, b in zip(A.layers, B.layers, strict=True):
        products = np.einsum("hoc,thgcd,gpd->top", a.O, added(a, b, state), b.O, optimize=True)
        state = products + state if a.residual and b.residual else products
    return finite(A.head @ state @ B.head.T)


def _closure(a: _Layer, b: _Layer, state: np.ndarray) -> np.ndarray:
    """Inner products of what heads add (position, head of a, head of b, size, size): scores straight or swapped."""
    q, k = ([[_overlap(a, b, x + i, x + j, state) for j in (0, 1)] for i in (0, 1)] for x in (0, 2))
    w = [[np.einsum("thgab,shgab->tshg", q[i][j], k[i][j], optimize=True) for j in (0, 1)] for i in (0, 1)]
    scores = (w[0][0] * w[1][1] + w[0][1] * w[1][0]) / 2
    causal = np.tri(len(state))[:, :, None, None]
    return np.einsum("tshg,shgab->thgab", causal * scores, _overlap(a, b, VALUE, VALUE, state), optimize=True)


def _exact(a: _Layer, b: _Layer, state: np.ndarray) -> np.ndarray:
    """As `_closure`, over all pairings that full symmetrisation has: 12 where s < t, and 120 where s = t."""
    G = {(x, y): _overlap(a, b, x, y, state) for x in range(5) for y in range(5)}
    products = sum(_paired(match, G) for match in TOGETHER) / len(TOGETHER)
    for t in range(1, len(state)):
        # queries stand at t, keys and values at all s < t at once
        at = {(x, y): each[t : t + 1] if x < 2 else each[:t] for (x, y), each in G.items()}
        products[t] += sum(_paired(match, at) for match in APART).sum(axis=0) / len(APART)
    return products


def _overlap(a: _Layer, b: _Layer, x: int, y: int, state: np.ndarray) -> np.ndarray:
    """Inner products of the rows of a's factor x and b's factor y (position, head of a, head of b, size, size)."""
    left = a.factors[x] @ state[:, None]
    return left[:, :, None] @ b.factors[y][:, None].mT


def _paired(match: tuple[int, ...], G: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """Contract two tensors whose factors x and match[x] meet.

    One walks from factor to factor along the indices that they share, a score's in turn of a and of b. The walk from v
    ends at the other v and leaves a matrix; each other walk is closed and leaves its trace.
    """
    product, seen = _walk(VALUE, match, G)
    for score in (0, 1):
        if score not in seen:
            cycle, others = _walk(score, match, G)
            product, seen = product * np.trace(cycle, axis1=-2, axis2=-1)[..., None, None], seen | others
    return product


def _walk(start: int, match: tuple[int, ...], G) -> tuple[np.ndarray, set[int]]:
    x, seen = start, set()
    product = G[x, match[x]]
    while (y := PARTNER[match[x]]) != VALUE:
        x = match.index(y)
        product = product @ G[x, y].mT
        seen.add(x % 2)
        if x == PARTNER[start]:
            break
        x = PARTNER[x]
        product = product @ G[x, match[x]]
    return product, seen


def _prepared(A, B, positions, second_moment, method, outputs=None) -> tuple[_Network, _Network, str]:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    positions = _checks.count("positions", positions)
    a, b = _stack("A", A), _stack("B", B)
    if len(a.layers) != len(b.layers):
        raise ValueError(f"A and B must be equally deep, got {len(a.layers)} and {len(b.layers)} layers")
    depth = len(a.layers)
    if method == "exact" and depth > EXACT_DEPTH:
        raise ValueError(f"method 'exact' knows one layer of attention, got {depth}; use 'closure'")
    if method == "auto":
        method = "exact" if depth <= EXACT_DEPTH else "closure"
    networks = [_network(name, stack, positions, second_moment, outputs) for name, stack in (("A", a), ("B", b))]
    inputs = [network.embedding.shape[1] for network in networks]
    if inputs[0] != inputs[1]:
        raise ValueError(f"A and B must take the same inputs, got {inputs[0]} and {inputs[1]} of them")
    return *networks, method


def _stack(name: str, network) -> AttentionStack:
    if isinstance(network, BilinearAttention):
        network = [network]
    if isinstance(network, AttentionStack):
        return network
    return AttentionStack(check_modules(name, network, BilinearAttention))


def _network(name: str, stack: AttentionStack, positions: int, second_moment, outputs) -> _Network:
    for parameter, values in stack.named_parameters():
        _checks.finite(f"{name}.{parameter}", values.detach())
    width = np.eye(stack.layers[0].width)
    embedding, head = (width if W is None else _array(W) for W in (stack.embedding, stack.head))
    if second_moment is not None:
        embedding = embedding @ semidefinite_root(
            second_moment, embedding.shape[1], "E[x xᵀ] of the input at one position"
        )
    return _Network([_layer(layer, positions) for layer in stack.layers], embedding, head[chosen(outputs, len(head))])


def _layer(layer: BilinearAttention, positions: int) -> _Layer:
    turns = rotations(positions, layer.size).numpy() if layer.rotary else np.eye(layer.size)[None]
    scores = turns[:, None] @ np.concatenate([_array(layer.Q), _array(layer.K)])[:, None]
    values = _array(layer.V)[None, None]
    shape = (1, positions, *values.shape[2:])
    factors = np.concatenate([np.broadcast_to(scores, (4, *shape[1:])), np.broadcast_to(values, shape)])
    return _Layer(factors, _array(layer.O) / layer.size**2, layer.residual)


def _array(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().double().numpy()
