"""The ordered real Schur form of a recurrent matrix.

W = Q T Qᵀ with Q orthogonal and T quasi-upper-triangular (arXiv 2606.18457).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.linalg

from tasksym import _blocks, _checks
from tasksym.sectors import SMALL_MARGIN, Sectors, SplitWarning


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
    _margins: dict[float, float] = field(default_factory=dict, repr=False)  # shared by all orders of one W

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

    def sectors(self, alpha: float = 0.9, *, mirrored: bool = False) -> Sectors:
        """Split the blocks into the leading sector R, |λ| ≥ alpha, and the complement C.

        Parameters
        ----------
        alpha : float
        mirrored : bool
            Put C first. What couples the sectors is then RC, from R into C, instead of CR.

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
        leading = self._leading_blocks(alpha)
        rank = sum(size for _, size in self.blocks[:leading])
        schur = self.reordered([*range(leading, len(self.blocks)), *range(leading)]) if mirrored else self
        sectors = Sectors(schur, alpha, rank, mirrored)
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
        return OrderedSchur(self.W, Q, T, self.eps, tuple(refused), self._margins)

    def admissible_order(self, rng, alpha: float = 0.9) -> list[int]:
        """Blocks shuffled inside each sector: an order that the definition of the sectors allows as well."""
        rng = _checks.generator(rng)
        leading = self._leading_blocks(_checks.number("alpha", alpha, open_low=True))
        complement = leading + rng.permutation(len(self.blocks) - leading)
        return [*rng.permutation(leading).tolist(), *complement.tolist()]

    def margin(self, alpha: float = 0.9) -> float:
        """Least ‖E‖₂/‖W‖₂ for which W + E has an eigenvalue on the circle |z| = alpha.

        That is the least singular value of zI − W over the circle. A small gap makes it small, and so does a strongly
        non-normal W, whose eigenvalues move far under a tiny change however well they look separated.
        """
        alpha = _checks.number("alpha", alpha, open_low=True)
        if alpha not in self._margins:
            norm = np.linalg.norm(self.W, 2)
            self._margins[alpha] = float(_distance_to_circle(self, alpha) / norm) if norm > 0 else float("inf")
        return self._margins[alpha]

    def _leading_blocks(self, alpha: float) -> int:
        """How many blocks, from the first, have a modulus of at least alpha."""
        leads = self.moduli >= alpha - self.tolerance
        count = int(np.flatnonzero(leads)[-1]) + 1 if leads.any() else 0
        for block in np.flatnonzero(~leads[:count]):
            if self.moduli[block] < alpha - 2 * self.tolerance:
                below, above = _named(self.eigenvalues[block]), _named(self.eigenvalues[count - 1])
                raise ValueError(
                    f"eigenvalues {below} and {above} lie on either side of alpha = {alpha:g}, but are too close to "
                    "be put in order; choose an alpha that does not part them"
                )
        return count


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


def _named(eigenvalue: complex) -> str:
    return f"{eigenvalue.real:.6g}" if eigenvalue.imag == 0 else f"{eigenvalue.real:.6g}±{eigenvalue.imag:.6g}i"
