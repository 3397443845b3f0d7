"""The ordered real Schur form of a recurrent matrix, its two sectors and the couplings between them.

W = Q T Qᵀ with Q orthogonal and T quasi-upper-triangular (arXiv 2606.18457).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from tasksym import _blocks, _checks

COUPLINGS = ("RR", "CR", "CC")
SETS = ("", "RR", "CR", "CC", "RR+CR", "RR+CC", "CR+CC", "RR+CR+CC")
SMALL_MARGIN = 1e-3  # below it, one part in a thousand of ‖W‖ decides which eigenvalues lead


class SplitWarning(UserWarning):
    """The leading sector and the complement are hardly separate."""


@dataclass(frozen=True, eq=False)
class OrderedSchur:
    """W = Q T Qᵀ with the diagonal blocks of T ordered by non-increasing eigenvalue modulus.

    Made by `ordered_schur`.

    Parameters
    ----------
    W : array (n, n)
        The decomposed matrix, float64.
    Q : array (n, n)
        Orthogonal. The signs of its columns are arbitrary.
    T : array (n, n)
        1×1 blocks for real eigenvalues, 2×2 for conjugate pairs, exact zeros below them.
    eps : float
        Rounding unit of the dtype in which W was given.
    refused : tuple of (complex, complex)
        Pairs of eigenvalues so close, or so ill-conditioned, that no swap puts them in order; they stand as they are.
    """

    W: np.ndarray
    Q: np.ndarray
    T: np.ndarray
    eps: float
    refused: tuple[tuple[complex, complex], ...] = ()

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(start, size) of every diagonal block."""
        starts = _blocks.starts_of(self.T)
        return tuple(zip(starts.tolist(), np.diff(starts, append=len(self.T)).tolist(), strict=True))

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """One eigenvalue a block, complex (block,); of a conjugate pair the one above the real axis."""
        return _blocks.eigenvalues_of(self.T, _blocks.starts_of(self.T))

    @cached_property
    def moduli(self) -> np.ndarray:
        """Eigenvalue modulus of every block (block,)."""
        return np.abs(self.eigenvalues)

    @property
    def tolerance(self) -> float:
        """Moduli that differ by no more than this count as equal: n · eps · largest modulus, n at least 10."""
        return _blocks.tie_tolerance(self.moduli, len(self.T), self.eps)

    def sectors(self, alpha: float = 0.9) -> Sectors:
        """Split the blocks into the leading sector R, |λ| ≥ alpha, and the complement C.

        Raises
        ------
        TypeError, ValueError
            If alpha is not a positive finite number, or two eigenvalues on either side of it cannot be put in order.

        Warns
        -----
        SplitWarning
            If a relative change of W below `SMALL_MARGIN` can move an eigenvalue over alpha.
        """
        alpha = _checks.number("alpha", alpha, open_low=True)
        sectors = Sectors(self, alpha, rank=self._rank(alpha))
        if sectors.margin < SMALL_MARGIN:
            warnings.warn(
                f"the split at alpha = {alpha:g} is not to be trusted: a change of W by {sectors.margin:.1e} of its "
                f"norm can move an eigenvalue over it (gap {sectors.gap:.2g}); try another alpha",
                SplitWarning,
                stacklevel=2,
            )
        return sectors

    def reordered(self, order: Iterable[int]) -> OrderedSchur:
        """The same W with its blocks in another order, by the same orthogonal swaps.

        Parameters
        ----------
        order : iterable of int
            A permutation of the blocks: entry k is the block that comes to stand at place k. `admissible_order`
            draws one that leaves the sectors as they are.

        Raises
        ------
        ValueError
            If `order` is not a permutation of range(len(blocks)).
        """
        order = [int(block) for block in order]
        if sorted(order) != list(range(len(self.blocks))):
            raise ValueError(f"order must be a permutation of the {len(self.blocks)} blocks, got {order}")
        refused = list(self.refused)
        T, Q = _blocks.permute(self.T, self.Q, order, refused)
        return OrderedSchur(self.W, Q, T, self.eps, tuple(refused))

    def admissible_order(self, rng, alpha: float = 0.9) -> list[int]:
        """Blocks shuffled inside each sector: an order that the definition of the sectors allows as well."""
        rng = _checks.generator(rng)
        rank = self.sectors(alpha).rank
        starts = np.array([start for start, _ in self.blocks])
        leading = int((starts < rank).sum())
        complement = leading + rng.permutation(len(starts) - leading)
        return [*rng.permutation(leading).tolist(), *complement.tolist()]

    def _rank(self, alpha: float) -> int:
        leads = self.moduli >= alpha - self.tolerance
        last = int(np.flatnonzero(leads)[-1]) if leads.any() else -1
        for block in np.flatnonzero(~leads[: last + 1]):
            if self.moduli[block] < alpha - 2 * self.tolerance:
                below, above = _named(self.eigenvalues[block]), _named(self.eigenvalues[last])
                raise ValueError(
                    f"eigenvalues {below} and {above} lie on either side of alpha = {alpha:g}, but are too close to "
                    "be put in order; choose an alpha that does not part them"
                )
        return sum(size for _, size in self.blocks[: last + 1])


@dataclass(frozen=True, eq=False)
class Sectors:
    """The leading sector R (the first `rank` coordinates z = Qᵀh), the complement C, and T = B + N.

    Column is source and row is target: T_CR, read C→R, is N[:rank, rank:]. Made by `OrderedSchur.sectors`.

    Parameters
    ----------
    schur : OrderedSchur
    alpha : float
        Least modulus of the leading sector.
    rank : int
        Dimension of the leading sector.
    """

    schur: OrderedSchur
    alpha: float
    rank: int

    @cached_property
    def spectral(self) -> np.ndarray:
        """B (n, n): the diagonal blocks of T, 2×2 blocks whole."""
        blocks = np.zeros_like(self.schur.T)
        for start, size in self.schur.blocks:
            block = np.s_[start : start + size, start : start + size]
            blocks[block] = self.schur.T[block]
        return blocks

    @cached_property
    def coupling(self) -> np.ndarray:
        """N (n, n): the non-normal couplings, strictly above the diagonal blocks."""
        return self.schur.T - self.spectral

    @cached_property
    def mass(self) -> dict[str, float]:
        """Frobenius norm of each coupling."""
        return {name: float(np.linalg.norm(self.coupling[self._part(name)])) for name in COUPLINGS}

    @property
    def mass_floor(self) -> float:
        """Mass that rounding of W alone can produce: n · eps · ‖T‖_F."""
        return len(self.schur.T) * self.schur.eps * float(np.linalg.norm(self.schur.T))

    @property
    def gap(self) -> float:
        """Least modulus in R minus the largest in C; NaN if either is empty."""
        leading = np.array([start < self.rank for start, _ in self.schur.blocks])
        if leading.all() or not leading.any():
            return float("nan")
        return float(self.schur.moduli[leading].min() - self.schur.moduli[~leading].max())

    @cached_property
    def margin(self) -> float:
        """Least ‖E‖₂/‖W‖₂ for which W + E has an eigenvalue on the circle |z| = alpha.

        That is the least singular value of zI − W over the circle. A small gap makes it small, and so does a strongly
        non-normal W, whose eigenvalues move far under a tiny change however well they look separated.
        """
        norm = np.linalg.norm(self.schur.W, 2)
        return float(_distance_to_circle(self.schur, self.alpha) / norm) if norm > 0 else float("inf")

    def basis(self, sector: str) -> np.ndarray:
        """Orthonormal columns of Q that span a sector, "R" (n, rank) or "C" (n, n - rank)."""
        if sector not in ("R", "C"):
            raise ValueError(f"sector must be 'R' or 'C', got {sector!r}")
        return self.schur.Q[:, : self.rank] if sector == "R" else self.schur.Q[:, self.rank :]

    def ablate(self, couplings: str | Iterable[str]) -> np.ndarray:
        """W with a set of couplings removed, W̃ = Q T̃ Qᵀ (n, n); the spectrum stays the same.

        Parameters
        ----------
        couplings : str or iterable of str
            "RR+CC" or ("RR", "CC"); the empty set gives W itself.

        Raises
        ------
        ValueError
            If a coupling is not one of RR, CR and CC.
        """
        names = _names(couplings)
        removed = np.zeros_like(self.schur.T)
        for name in names:
            removed[self._part(name)] = self.coupling[self._part(name)]
        # Subtracting from W, rather than rebuilding it, leaves what is not removed exact to the last bit.
        return self.schur.W - self.schur.Q @ removed @ self.schur.Q.T if names else self.schur.W.copy()

    def removed_mass(self, couplings: str | Iterable[str]) -> float:
        """‖T − T̃‖_F of an ablation, which is ‖W − W̃‖_F too."""
        return float(np.linalg.norm([self.mass[name] for name in _names(couplings)]))

    def _part(self, name: str) -> tuple[slice, slice]:
        leading, complement = slice(None, self.rank), slice(self.rank, None)
        return {"RR": (leading, leading), "CR": (leading, complement), "CC": (complement, complement)}[name]


def ordered_schur(W) -> OrderedSchur:
    """Real Schur form of W with its blocks ordered by non-increasing eigenvalue modulus.

    A conjugate pair is never split. Blocks whose moduli agree to n · eps of the dtype of W keep the order in which
    LAPACK found them, since sorting them would sort noise.

    Parameters
    ----------
    W : array or Tensor (n, n)
        Real and finite. Integers and float32 are computed in float64.

    Returns
    -------
    OrderedSchur

    Raises
    ------
    TypeError, ValueError
        If W is complex, not numeric, not square, empty, or has a NaN or an infinity.

    References
    ----------
    The form: Golub and Van Loan, *Matrix Computations*, 7.4.1. Swaps: Bai and Demmel (1993). Its use on recurrent
    networks: arXiv 2606.18457.
    """
    W = _checks.real_array("W", W)
    if W.ndim != 2 or W.shape[0] != W.shape[1] or W.size == 0:
        hint = "; pass one matrix at a time, as in ordered_schur(W[0])" if W.ndim == 3 else ""
        raise ValueError(f"W must be a non-empty square matrix, got shape {W.shape}{hint}")
    eps = float(np.finfo(W.dtype).eps)
    W = W.astype(np.float64)
    T, Q = scipy.linalg.schur(W, output="real")
    refused = []
    T, Q = _blocks.sort(T, Q, eps, refused)
    return OrderedSchur(W, Q, T, eps, tuple(refused))


def _distance_to_circle(schur: OrderedSchur, radius: float, angles: int = 16) -> float:
    """Least singular value of zI − W over |z| = radius: over a coarse grid and next to each close eigenvalue."""
    close = np.argsort(np.abs(schur.moduli - radius))[:8]
    theta = np.concatenate([np.linspace(0, np.pi, angles), np.angle(schur.eigenvalues[close])])
    shifted = radius * np.exp(1j * theta)[:, None, None] * np.eye(len(schur.T)) - schur.T
    return float(np.linalg.svd(shifted, compute_uv=False)[:, -1].min())


def _names(couplings: str | Iterable[str]) -> list[str]:
    """The couplings of a set, in canonical order."""
    if isinstance(couplings, str):
        names = couplings.split("+") if couplings else []
    else:
        names = list(couplings) if isinstance(couplings, Iterable) else [couplings]
    if unknown := [name for name in names if name not in COUPLINGS]:
        raise ValueError(f"couplings are RR, CR and CC, joined by '+' as in 'RR+CC'; got {unknown[0]!r}")
    return [name for name in COUPLINGS if name in names]


def _named(eigenvalue: complex) -> str:
    return f"{eigenvalue.real:.6g}" if eigenvalue.imag == 0 else f"{eigenvalue.real:.6g}±{eigenvalue.imag:.6g}i"
