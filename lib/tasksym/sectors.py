"""The two sectors of an ordered Schur form, the couplings in and between them, and their removal.

The partition and its ablations are those of arXiv 2606.18457.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tasksym import _checks

if TYPE_CHECKING:
    from tasksym.schur import OrderedSchur

COUPLINGS = ("RR", "CR", "CC")
MIRRORED_COUPLINGS = ("RR", "RC", "CC")
SETS = ("", "RR", "CR", "CC", "RR+CR", "RR+CC", "CR+CC", "RR+CR+CC")
SMALL_MARGIN = 1e-3  # below it, one part in a thousand of ‖W‖ decides which eigenvalues lead


class SplitWarning(UserWarning):
    """The leading sector and the complement are hardly separate."""


@dataclass(frozen=True, eq=False)
class Sectors:
    """The leading sector R, the complement C, and T = B + N in the coordinates z = Qᵀh.

    Column is source and row is target: T_CR, read C→R, is N[:rank, rank:]. Made by `OrderedSchur.sectors`.

    Parameters
    ----------
    schur : OrderedSchur
    alpha : float
        Least modulus of the leading sector.
    rank : int
        Dimension of the leading sector.
    mirrored : bool
        Whether C has the first coordinates, and R the last `rank` of them.
    """

    schur: OrderedSchur
    alpha: float
    rank: int
    mirrored: bool = False

    @property
    def couplings(self) -> tuple[str, str, str]:
        """Names of the three couplings."""
        return MIRRORED_COUPLINGS if self.mirrored else COUPLINGS

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
        return {name: float(np.linalg.norm(self.coupling[self._part(name)])) for name in self.couplings}

    @property
    def mass_floor(self) -> float:
        """Mass that rounding of W alone can produce: n · eps · ‖T‖_F."""
        return len(self.schur.T) * self.schur.eps * float(np.linalg.norm(self.schur.T))

    @property
    def gap(self) -> float:
        """Least modulus in R minus the largest in C; NaN if either is empty."""
        coordinates = range(len(self.schur.T))[self._coordinates("R")]
        leading = np.array([start in coordinates for start, _ in self.schur.blocks])
        if leading.all() or not leading.any():
            return float("nan")
        return float(self.schur.moduli[leading].min() - self.schur.moduli[~leading].max())

    @property
    def margin(self) -> float:
        """Least relative change of W that can move an eigenvalue over alpha; see `OrderedSchur.margin`."""
        return self.schur.margin(self.alpha)

    def basis(self, sector: str) -> np.ndarray:
        """Orthonormal columns of Q that span the coordinates of a sector, "R" (n, rank) or "C" (n, n - rank)."""
        if sector not in ("R", "C"):
            raise ValueError(f"sector must be 'R' or 'C', got {sector!r}")
        return self.schur.Q[:, self._coordinates(sector)]

    def ablate(self, couplings: str | Iterable[str], dose: float = 1.0) -> np.ndarray:
        """W with a set of couplings removed, W̃ = Q T̃ Qᵀ (n, n); the spectrum stays the same.

        Parameters
        ----------
        couplings : str or iterable of str
            "RR+CC" or ("RR", "CC"); the empty set gives W itself.
        dose : float
            Share of them that is removed.

        Raises
        ------
        TypeError, ValueError
            If a coupling is not one of `couplings`, or the dose is not in [0, 1].
        """
        names = self._names(couplings)
        dose = _checks.number("dose", dose, high=1.0)
        removed = np.zeros_like(self.schur.T)
        for name in names:
            removed[self._part(name)] = dose * self.coupling[self._part(name)]
        # Subtracting from W, rather than rebuilding it, leaves what is not removed exact to the last bit.
        return self.schur.W - self.schur.Q @ removed @ self.schur.Q.T if names else self.schur.W.copy()

    def removed_mass(self, couplings: str | Iterable[str]) -> float:
        """‖T − T̃‖_F of an ablation, which is ‖W − W̃‖_F too."""
        return float(np.linalg.norm([self.mass[name] for name in self._names(couplings)]))

    def _coordinates(self, sector: str) -> slice:
        first = len(self.schur.T) - self.rank if self.mirrored else self.rank
        return slice(first) if (sector == "R") != self.mirrored else slice(first, None)

    def _part(self, name: str) -> tuple[slice, slice]:
        source, target = name
        return self._coordinates(target), self._coordinates(source)

    def _names(self, couplings: str | Iterable[str]) -> list[str]:
        """The couplings of a set, in canonical order."""
        if isinstance(couplings, str):
            names = couplings.split("+") if couplings else []
        else:
            names = list(couplings) if isinstance(couplings, Iterable) else [couplings]
        if unknown := [name for name in names if name not in self.couplings]:
            *most, last = self.couplings
            raise ValueError(
                f"couplings are {', '.join(most)} and {last}, joined by '+' as in 'RR+CC'; got {unknown[0]!r}"
            )
        return [name for name in self.couplings if name in names]
