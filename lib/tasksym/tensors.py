"""Tensor similarity: inner products of bilinear networks from their weights alone (arXiv 2605.15183).

A similarity of 1 says that two networks are one function up to a factor. The converse holds where the method is exact,
for stacks of at most two layers; beyond, the closure can score below 1 what is the same function.
"""

from __future__ import annotations

import numpy as np

from tasksym import _checks, _exact, _recursion
from tasksym._stacks import EXACT_DEPTH, matched, prepared
from tasksym.bilinear import Bilinear

BATCH = 4096  # Monte Carlo samples at a time


class Measure(float):
    """A number that says how it was computed: a float in every other respect.

    Parameters
    ----------
    value : float
    metric : str
        "gauss", "sym" or "raw".
    method : str
        "exact", "closure" or "Monte Carlo".
    error : float
        Standard error, 0 unless the method is Monte Carlo.
    """

    def __new__(cls, value: float, metric: str, method: str, error: float = 0.0):
        measure = super().__new__(cls, value)
        measure.metric, measure.method, measure.error = metric, method, error
        return measure

    def __getnewargs__(self):
        return self.value, self.metric, self.method, self.error

    @property
    def value(self) -> float:
        return float(self)

    def __repr__(self) -> str:
        error = f" ± {self.error:.1g}" if self.error else ""
        return f"{self.value:.6g}{error} ({self.metric}, {self.method})"


def gram(A, B, metric: str = "gauss", second_moment=None, method: str = "auto") -> np.ndarray:
    """Inner products of every output of A with every output of B.

    Parameters
    ----------
    A, B : Bilinear, BilinearStack or list of Bilinear
        Of one depth, on the same inputs.
    metric : str
        "gauss": E[A(x) B(x)] over Gaussian inputs; "sym": of the symmetrised tensors of the polynomials, in (1, x);
        "raw": of the tensors as the weights factor them, which depends on the factors and not on the function alone.
    second_moment : array (1 + in, 1 + in), optional
        E[x̃ x̃ᵀ] of x̃ = (1, x), as from `moment_matrix`. The identity, N(0, I), if not given. Under "sym" and "raw" it
        weighs the directions of x̃, and need not have a 1 in its corner.
    method : str
        "exact": for at most two layers; with k units in the second and n inputs it costs k² n³. "closure": layer by
        layer, for any depth; it is exact for one layer, while for more, "gauss" takes hidden states to be Gaussian,
        and "sym" averages over the automorphisms of the binary tree instead of all permutations. "auto": exact where
        there is one. "raw" is always exact.

    Returns
    -------
    array (out of A, out of B), float64

    Raises
    ------
    TypeError, ValueError
        If networks do not fit each other, weights or moments are not finite, the second moment is none, a name is
        unknown, or exactness is asked for beyond two layers.
    """
    A, B, metric, method = prepared(A, B, metric, second_moment, method)
    return finite(_grams(A, B, metric, method, norms=False)[(0, 0) if A is B else (0, 1)])


def similarity(A, B, metric: str = "gauss", outputs=None, second_moment=None, method: str = "auto") -> Measure:
    """Cosine of two networks in the inner product of `gram`, summed over outputs.

    Parameters
    ----------
    A, B, metric, second_moment, method
        As for `gram`.
    outputs : int or iterable of int, optional
        Compare these outputs only.

    Returns
    -------
    Measure
        A float in [-1, 1], up to rounding, with the attributes metric and method ("exact" or "closure").

    Raises
    ------
    TypeError, ValueError
        As `gram`; and if the numbers of outputs differ, or a network is zero on these outputs.
    """
    A, B, metric, method = prepared(A, B, metric, second_moment, method, outputs, same_outputs=True)
    aa, ab, bb = (np.trace(product) for product in _three(A, B, metric, method))
    return Measure(cosine(aa, ab, bb), metric, method)


def slices(A, B, metric: str = "gauss", second_moment=None, method: str = "auto") -> tuple[Measure, ...]:
    """Similarity of each output by itself.

    Parameters
    ----------
    A, B, metric, second_moment, method
        As for `gram`.

    Returns
    -------
    tuple of Measure (out,)
        NaN where an output of either network is zero.

    Raises
    ------
    TypeError, ValueError
        As `gram`; and if the numbers of outputs differ.
    """
    A, B, metric, method = prepared(A, B, metric, second_moment, method, same_outputs=True)
    diagonals = (np.diag(product).tolist() for product in _three(A, B, metric, method))
    return tuple(
        Measure(cosine(aa, ab, bb) if aa > 0 and bb > 0 else np.nan, metric, method)
        for aa, ab, bb in zip(*diagonals, strict=True)
    )


def distance(A, B, metric: str = "gauss", outputs=None, second_moment=None, method: str = "auto") -> Measure:
    """‖A − B‖ / ‖A‖, from the weights of `difference`, so that it is right however close A and B are.

    Parameters
    ----------
    A, B, metric, outputs, second_moment, method
        As for `similarity`. A is what the distance is relative to.

    Returns
    -------
    Measure

    Raises
    ------
    TypeError, ValueError
        As `similarity`, except that B may be zero.
    """
    both = difference(A, B)
    both, _, metric, method = prepared(both, both, metric, second_moment, method, outputs)
    A, _, _, _ = prepared(A, A, metric, second_moment, method, outputs)
    squares = [np.trace(finite(_grams(each, each, metric, method)[0, 0])) for each in (both, A)]
    if not squares[1] > 0:
        raise ValueError("A is zero on these outputs, so that no distance is relative to it")
    return Measure(np.sqrt(max(squares[0], 0.0)) / np.sqrt(squares[1]), metric, method)


def difference(A, B) -> list[Bilinear]:
    """A − B as a stack, in float64.

    Its states are those of A and, beside them, those of A less those of B; its weights hold differences of weights. So
    what A and B have in common is never computed twice and then subtracted. (D = [D_A, −D_B] over the units of both is
    the same function.)

    Parameters
    ----------
    A, B : Bilinear, BilinearStack or list of Bilinear

    Returns
    -------
    list of Bilinear

    Raises
    ------
    TypeError, ValueError
        If networks do not fit each other.
    """
    layers = list(zip(*matched(A, B, same_outputs=True), strict=True))
    stack, n = [], None  # n: entries of the state before this layer, None where it is the input
    for (D, L, R), (other_D, other_L, other_R) in layers:
        D, other_D = _padded(D, other_D)
        (L, other_L), (R, other_R) = _padded(L, other_L), _padded(R, other_R)
        before, behind = _beside(L, other_L, n), _beside(R, other_R, n)
        nothing = np.zeros((len(D), 2 * D.shape[1]))
        lower = np.concatenate([D - other_D, other_D, other_D], axis=1)
        upper = np.concatenate([D, nothing], axis=1)
        joined = lower if len(stack) == len(layers) - 1 else np.concatenate([upper, lower])
        # a l r − b l' r' = (a − b) l r + b (l − l') r + b l' (r − r')
        left = np.concatenate([before[0], before[2], before[1]])
        right = np.concatenate([behind[0], behind[0], behind[2]])
        used = joined.any(axis=0) & left.any(axis=1) & right.any(axis=1)
        used[0] = True  # of equal networks nothing else is left
        stack.append(Bilinear(joined[:, used], left[used], right[used]))
        n = len(D)
    return stack


def monte_carlo(A, B, samples: int = 100_000, rng=0, outputs=None, second_moment=None) -> Measure:
    """The cosine of `similarity` under "gauss" by drawing inputs: an oracle for any depth.

    Parameters
    ----------
    A, B, outputs, second_moment
        As for `similarity`.
    samples : int
        At least 2.
    rng : int or numpy Generator

    Returns
    -------
    Measure
        With its standard error, by the delta method. Deep networks have heavy tails, of which few samples see little:
        there the error is itself too small.
    """
    samples, rng = _checks.count("samples", samples, minimum=2), _checks.generator(rng)
    A, B, metric, _ = prepared(A, B, "gauss", second_moment, "closure", outputs, same_outputs=True)
    products = np.empty((3, samples))
    for start in range(0, samples, BATCH):
        some = slice(start, min(start + BATCH, samples))
        z = rng.normal(size=(some.stop - start, A[0][1].shape[1]))
        z[:, 0] = 1.0
        a, b = (_run(stack, z) for stack in (A, B))
        products[:, some] = [np.einsum("no,no->n", *pair) for pair in ((a, a), (a, b), (b, b))]
    aa, ab, bb = finite(products.mean(axis=1))
    estimate = cosine(aa, ab, bb)
    spread = products[1] / (np.sqrt(aa) * np.sqrt(bb)) - estimate / 2 * (products[0] / aa + products[2] / bb)
    return Measure(estimate, metric, "Monte Carlo", float(spread.std() / np.sqrt(samples)))


def moment_matrix(mean, covariance) -> np.ndarray:
    """E[x̃ x̃ᵀ] = [[1, μᵀ], [μ, C + μμᵀ]] of x̃ = (1, x) for x ~ N(μ, C).

    Parameters
    ----------
    mean : array (in,)
    covariance : array (in, in)

    Returns
    -------
    array (1 + in, 1 + in), float64
    """
    mean, covariance = (
        _checks.real_array(name, value).astype(np.float64)
        for name, value in (("mean", mean), ("covariance", covariance))
    )
    if mean.ndim != 1 or covariance.shape != 2 * mean.shape:
        raise ValueError(f"mean must be (in,) and covariance (in, in), got {mean.shape} and {covariance.shape}")
    lifted = np.concatenate([[1.0], mean])
    moment = np.outer(lifted, lifted)
    moment[1:, 1:] += covariance
    return moment


@np.errstate(over="ignore", invalid="ignore")
def _grams(A, B, metric: str, method: str, norms: bool = True) -> dict[_recursion.Pair, np.ndarray]:
    if method == "closure" or metric == "raw" or len(A) < EXACT_DEPTH:
        return _recursion.grams(A, B, metric, norms)
    if A is B:
        A = _exact.units(A)
        return {(0, 0): _exact.gram(A, A, metric)}
    units = _exact.units(A), _exact.units(B)
    pairs = [(0, 0), (0, 1), (1, 1)] if norms else [(0, 1)]
    return {(i, j): _exact.gram(units[i], units[j], metric) for i, j in pairs}


def _three(A, B, metric: str, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gram matrices of A with A, A with B and B with B."""
    products = _grams(A, B, metric, method)
    aa = finite(products[0, 0])
    return (aa, aa, aa) if A is B else (aa, finite(products[0, 1]), finite(products[1, 1]))


def finite(product: np.ndarray) -> np.ndarray:
    """`product`, unless it overflowed."""
    if not np.isfinite(product).all():
        raise ValueError("inner products exceed float64, since each layer squares their size; scale the weights down")
    return product


def cosine(aa: float, ab: float, bb: float) -> float:
    """Of two networks with these inner products."""
    for name, norm in (("A", aa), ("B", bb)):
        if not norm > 0:
            raise ValueError(f"{name} is zero on these outputs, so that it has no direction to compare")
    return float(ab / (np.sqrt(aa) * np.sqrt(bb)))  # √(aa · bb) would overflow long before


@np.errstate(over="ignore", invalid="ignore")
def _run(stack: list[_recursion.Layer], h: np.ndarray) -> np.ndarray:
    for D, L, R in stack:
        h = ((h @ L.T) * (h @ R.T)) @ D.T
    return h


def _padded(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with zeros at the end of each axis, in the larger of their shapes."""
    shape = np.maximum(a.shape, b.shape)
    return tuple(np.pad(each, [(0, extra) for extra in shape - each.shape]) for each in (a, b))


def _beside(a: np.ndarray, b: np.ndarray, n: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A's factor, B's, and A's less B's, on the state (1, h, h − h') of A's and B's states h and h'.

    On the input, which both share, without the third part.
    """
    if n is None:
        return a, b, a - b
    return (
        np.concatenate([a, np.zeros((len(a), n))], axis=1),
        np.concatenate([b, -b[:, 1:]], axis=1),
        np.concatenate([a - b, b[:, 1:]], axis=1),
    )
