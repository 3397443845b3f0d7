"""Moving the diagonal blocks of a real Schur form W = Q T Qᵀ.

LAPACK has no ordering by modulus, so one block at a time is moved with its `dtrexc`, which swaps neighbours by
orthogonal transforms only (Bai and Demmel 1993). Rounding may split a pair on its way, so that sorting takes passes
until the blocks, read off T anew, are in order. Swaps that LAPACK refuses, of eigenvalues too close to tell apart, are
noted in `refused`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtrexc

PASSES = 20


def sort(T, Q, eps, refused):
    """Order the blocks by non-increasing modulus, up to the tie tolerance.

    A swap moves ill-conditioned eigenvalues by more than the tolerance, so that one pass may leave a pair out of
    order. Further passes mend that; what they cannot mend is noted in `refused`.
    """
    for _ in range(PASSES):
        T, Q = _pass(T, Q, eps, refused)
        if not (unsettled := _out_of_order(T, eps)):
            return T, Q
    refused.extend(pair for pair in unsettled if pair not in refused)
    return T, Q


def permute(T, Q, order, refused):
    """Bring block order[k] to place k by swaps of neighbours."""
    starts = starts_of(T)
    place = np.repeat(np.argsort(order), np.diff(starts, append=len(T)))  # where the block of each row belongs
    block = 1
    while block < len(starts := starts_of(T)):
        above, here, end = [*starts, len(T)][block - 1 : block + 2]
        swapped = False
        if place[above] > place[here]:
            T, Q, swapped = _swap(T, Q, starts, block, refused)
        if swapped:
            place[above:end] = np.roll(place[above:end], end - here)
        block = max(block - 1, 1) if swapped else block + 1
    return T, Q


def starts_of(T) -> np.ndarray:
    """First row of every diagonal block (block,)."""
    first = np.ones(len(T), dtype=bool)
    first[1:] = T.diagonal(-1) == 0
    return np.flatnonzero(first)


def eigenvalues_of(T, starts) -> np.ndarray:
    """One eigenvalue a block, complex (block,); of a conjugate pair the one above the real axis."""
    eigenvalues = T.diagonal().astype(complex)
    pairs = np.flatnonzero(T.diagonal(-1))
    a, b, c, d = T[pairs, pairs], T[pairs, pairs + 1], T[pairs + 1, pairs], T[pairs + 1, pairs + 1]
    eigenvalues[pairs] = (a + d) / 2 + np.sqrt((((a - d) / 2) ** 2 + b * c).astype(complex))
    return eigenvalues[starts]


def tie_tolerance(moduli, n, eps) -> float:
    """Moduli that differ by no more than this are equal for all that rounding can tell."""
    return float(max(n, 10) * eps * moduli.max())


def _pass(T, Q, eps, refused):
    """Bring to every place in turn the first block whose modulus is, to the tolerance, the largest of the rest.

    Moduli and sizes are carried along in lists: to read them off T after every move takes longer than the moves. Where
    a pair was split or a swap refused on the way they are out of step with T, and the next pass reads it anew.
    """
    starts = starts_of(T)
    moduli = np.abs(eigenvalues_of(T, starts))
    slack = tie_tolerance(moduli, len(T), eps) / 2  # the other half is for what later swaps round
    moduli, sizes = moduli.tolist(), np.diff(starts, append=len(T)).tolist()
    for place in range(len(moduli)):
        largest = max(moduli[place:]) - slack
        block = place
        while moduli[block] < largest:
            block += 1
        if block > place:
            T, Q = _move(T, Q, sum(sizes[:block]), sum(sizes[:place]), refused)
            for carried in (moduli, sizes):
                carried.insert(place, carried.pop(block))
    return T, Q


def _out_of_order(T, eps):
    """Pairs of eigenvalues of which the one above is smaller by more than the tolerance."""
    eigenvalues = eigenvalues_of(T, starts_of(T))
    moduli = np.abs(eigenvalues)
    largest_below = np.maximum.accumulate(moduli[::-1])[::-1]
    above = np.flatnonzero(moduli < largest_below - tie_tolerance(moduli, len(T), eps))
    return [(complex(eigenvalues[i]), complex(eigenvalues[i + int(np.argmax(moduli[i:]))])) for i in above]


def _move(T, Q, here, there, refused):
    """Move the block that starts in row `here` up to row `there`."""
    moved_T, moved_Q, info = dtrexc(T, Q, here + 1, there + 1)
    if info == 0:
        return moved_T, moved_Q
    # A swap on the way was refused. Step by step, let the block that would not yield go ahead in its stead.
    starts = starts_of(T)
    for block in range(np.searchsorted(starts, here), np.searchsorted(starts, there), -1):
        T, Q, _ = _swap(T, Q, starts_of(T), block, refused)
    return T, Q


def _swap(T, Q, starts, block, refused):
    """Swap `block` with the one above it, and tell whether LAPACK did."""
    swapped_T, swapped_Q, info = dtrexc(T, Q, starts[block] + 1, starts[block - 1] + 1)
    if info == 0:
        return swapped_T, swapped_Q, True
    pair = tuple(eigenvalues_of(T, starts)[block - 1 : block + 1].tolist())
    if pair not in refused:
        refused.append(pair)
    return T, Q, False
