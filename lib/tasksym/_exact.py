"""Exact inner products of stacks of two layers.

Every unit of the second layer is a product of two quadratic forms of the input. Under full symmetrisation, products of
four forms have a closed form; under the Gaussian measure each unit is first written in Hermite polynomials, of which
those of different degree are orthogonal, so that every degree is such a product by itself. (The 15 set partitions of
the four forms, with their joint cumulants, give the same; that is the slow twin in the tests.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasksym._recursion import Layer


@dataclass(frozen=True, eq=False)
class Units:
    """The units of the second layer, (x̃ᵀ P_k x̃)(x̃ᵀ R_k x̃), and how outputs sum them.

    Parameters
    ----------
    D : array (out, unit)
    P, R : array (unit, n, n)
        Symmetric.
    """

    D: np.ndarray
    P: np.ndarray
    R: np.ndarray


def units(stack: list[Layer]) -> Units:
    """Units of a stack of two layers, of which the first is lifted."""
    (D, L, R), (outer_D, outer_L, outer_R) = stack
    states = (D[:, :, None] * L).swapaxes(1, 2) @ R
    states = (states + states.swapaxes(1, 2)) / 2
    P, R = (np.tensordot(W, states, axes=1) for W in (outer_L, outer_R))
    return Units(outer_D, P, R)


def gram(A: Units, B: Units, metric: str) -> np.ndarray:
    """Inner products of outputs (out of A, out of B): of symmetrised tensors, or of functions under N(0, I)."""
    if metric == "sym":
        return A.D @ _quartic(A.P, A.R, B.P, B.R) @ B.D.T
    return _gauss(A, B)


def _quartic(P, R, S, T) -> np.ndarray:
    """⟨sym(P_k ⊗ R_k), sym(S_l ⊗ T_l)⟩ (k, l): of 24 permutations, 8 keep the forms whole and 16 make one cycle."""
    whole = _inner(P, S) * _inner(R, T) + _inner(P, T) * _inner(R, S)
    cycle, alike = np.empty_like(whole), P is S and R is T
    left, right = np.empty_like(S), np.empty_like(T)  # memory anew for every k would cost more than the products
    for k in range(len(P)):
        rest = slice(k if alike else 0, None)
        np.matmul(P[k], S[rest], out=left[rest])
        np.matmul(R[k], T[rest], out=right[rest])
        cycle[k, rest] = np.einsum("lij,lji->l", left[rest], right[rest])
        if alike:
            cycle[rest, k] = cycle[k, rest]
    return whole / 6 + cycle * (2 / 3)


def _gauss(A: Units, B: Units) -> np.ndarray:
    """Σ_d d! ⟨f_d, g_d⟩ over the degrees of the Hermite polynomials of f and g."""
    a = _Hermite(A)
    b = a if A is B else _Hermite(B)
    low = a.zero[:, None] * b.zero + a.one @ b.one.T + 2 * _inner(a.two, b.two)
    three = np.empty((len(a.vectors), len(b.vectors)))
    for k, (vector, matrix) in enumerate(zip(a.vectors, a.matrices, strict=True)):
        three[k] = ((b.vectors @ matrix) * (b.matrices @ vector)).sum(axis=1)
    three = 2 * (a.vectors @ b.vectors.T) * _inner(a.matrices, b.matrices) + 4 * three
    both = [np.concatenate([D, D], axis=1) for D in (A.D, B.D)]  # degree three has two terms a unit
    return low + both[0] @ three @ both[1].T + 24 * A.D @ _quartic(a.M, a.N, b.M, b.N) @ B.D.T


class _Hermite:
    """Components of the outputs by degree; of degree three and four, those of the units.

    With :p: for the product of factors without contractions, (p0 + p1·x + :xᵀMx:)(r0 + r1·x + :xᵀNx:) is sorted by how
    many of its factors are contracted.
    """

    def __init__(self, units: Units):
        (p0, p1, M), (r0, r1, N) = (_wick(forms) for forms in (units.P, units.R))
        self.M, self.N = M, N
        self.vectors, self.matrices = np.concatenate([p1, r1]), np.concatenate([N, M])
        product = M @ N
        two = p0[:, None, None] * N + r0[:, None, None] * M + p1[:, :, None] * r1[:, None, :] + 4 * product
        two = np.tensordot(units.D, two, axes=1)
        self.two = (two + two.swapaxes(1, 2)) / 2
        turned = (N @ p1[:, :, None] + M @ r1[:, :, None])[..., 0]
        self.one = units.D @ (p0[:, None] * r1 + r0[:, None] * p1 + 2 * turned)
        self.zero = units.D @ (p0 * r0 + (p1 * r1).sum(axis=1) + 2 * np.trace(product, axis1=1, axis2=2))


def _wick(forms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x̃ᵀ Q x̃ as a mean (unit,), a vector (unit, n) and a matrix (unit, n, n) of degree 0, 1 and 2."""
    M = forms[:, 1:, 1:]
    return forms[:, 0, 0] + np.trace(M, axis1=1, axis2=2), 2 * forms[:, 0, 1:], M


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.reshape(len(a), -1) @ b.reshape(len(b), -1).T
