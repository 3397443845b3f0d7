"""Inner products of bilinear networks against explicit tensors, quadrature and drawn inputs; invariances; distances.

The slow twins here build every tensor entry by entry, so that networks are tiny.
"""

import itertools
import math
import pickle

import numpy as np
import pytest
import torch

import tasksym as ts

DOUBLE = torch.float64
METHODS = ("exact", "closure")


def stack_of(widths, hidden, seed=0, residual=False):
    return ts.BilinearStack.random(widths, hidden, residual=residual, rng=seed, dtype=DOUBLE)


def layers_of(network):
    """Weights of the plain layers, as arrays."""
    folded = network.folded() if isinstance(network, ts.BilinearStack) else list(network)
    return [tuple(getattr(layer.lifted(), W).detach().numpy() for W in "DLR") for layer in folded]


def function(network, x):
    for layer in network.folded() if isinstance(network, ts.BilinearStack) else network:
        x = layer(x)
    return x.detach().numpy()


def some_moment(n, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return ts.moment_matrix(rng.normal(size=n) / 2, A @ A.T / n)


# --- Slow twins


def raw_tensor(network):
    """(out, 1 + in, …): each layer multiplies two copies of the tensor below, whose first row is the constant."""
    layers = layers_of(network)
    rows = np.eye(layers[0][1].shape[1])
    for place, (D, L, R) in enumerate(layers):
        if place:
            one = np.zeros((1, *rows.shape[1:]))
            one[(0,) * one.ndim] = 1.0
            rows = np.concatenate([one, rows])
        left, right = (np.tensordot(W, rows, axes=1) for W in (L, R))
        units = np.stack([np.multiply.outer(a, b) for a, b in zip(left, right, strict=True)])
        rows = np.tensordot(D, units, axes=1)
    return rows


def tree_automorphisms(depth):
    """Permutations of the leaves of the binary tree that swap the halves of nodes: 2, 8, 128 of them."""
    if depth == 0:
        return [(0,)]
    half, below = 2 ** (depth - 1), tree_automorphisms(depth - 1)
    pairs = [(a, tuple(half + i for i in b)) for a in below for b in below]
    return [a + b for a, b in pairs] + [b + a for a, b in pairs]


def averaged(tensor, permutations):
    total = sum(np.transpose(tensor, (0, *(1 + i for i in order))) for order in permutations)
    return total / len(permutations)


def contracted(a, b, S=None):
    """⟨a_o, b_p⟩ (o, p) with the metric S on every leaf."""
    if S is not None:
        for axis in range(1, b.ndim):
            b = np.moveaxis(np.tensordot(b, S, axes=(axis, 0)), -1, axis)
    return a.reshape(len(a), -1) @ b.reshape(len(b), -1).T


def quadrature(A, B, S, nodes):
    """E[A(x) B(x)ᵀ] by Gauss–Hermite for Gaussian x of second moment S, exact up to degree 2 nodes − 1."""
    n = len(S) - 1
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    z = np.array(list(itertools.product(points, repeat=n)))
    w = np.prod(list(itertools.product(weights / math.sqrt(2 * math.pi), repeat=n)), axis=1)
    values, vectors = np.linalg.eigh(S[1:, 1:] - np.outer(S[0, 1:], S[0, 1:]))
    x = S[0, 1:] + z @ (vectors * np.sqrt(np.clip(values, 0, None))).T
    return (function(A, x) * w[:, None]).T @ function(B, x)


def set_partitions(items):
    if not items:
        yield []
        return
    first, *rest = items
    for partition in set_partitions(rest):
        yield [[first], *partition]
        for place in range(len(partition)):
            yield [*partition[:place], [first, *partition[place]], *partition[place + 1 :]]


def cumulant(forms):
    """Joint cumulant of up to four quadratic forms c + 2b·x + xᵀMx of x ~ N(0, I), each (c, b, M)."""
    c, b, M = zip(*forms, strict=True)
    if len(forms) == 1:
        return c[0] + np.trace(M[0])
    if len(forms) == 2:
        return 2 * np.trace(M[0] @ M[1]) + 4 * b[0] @ b[1]
    if len(forms) == 3:
        middle = [(1, 0, 2), (0, 1, 2), (0, 2, 1)]
        return 8 * (np.trace(M[0] @ M[1] @ M[2]) + sum(b[i] @ M[j] @ b[k] for i, j, k in middle))
    cycles = [(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3)]
    ends = [(i, j, *(k for k in range(4) if k not in (i, j))) for i, j in itertools.combinations(range(4), 2)]
    return 16 * (
        sum(np.trace(M[i] @ M[j] @ M[k] @ M[m]) for i, j, k, m in cycles)
        + sum(b[i] @ (M[k] @ M[m] + M[m] @ M[k]) @ b[j] for i, j, k, m in ends)
    )


def cumulant_gram(A, B):
    """E[A(x) B(x)ᵀ] of two-layer stacks for x ~ N(0, I), over the 15 set partitions of four forms."""
    products = []
    for network in (A, B):
        (inner_D, inner_L, inner_R), (D, L, R) = layers_of(network)
        forms = np.einsum("ok,ki,kj->oij", inner_D, inner_L, inner_R)
        one = np.zeros((1, *forms.shape[1:]))
        one[0, 0, 0] = 1.0
        forms = np.concatenate([one, (forms + forms.swapaxes(1, 2)) / 2])
        units = [[(Q[0, 0], Q[0, 1:], Q[1:, 1:]) for Q in np.tensordot(W, forms, axes=1)] for W in (L, R)]
        products.append((D, list(zip(*units, strict=True))))
    (D, units), (other_D, other_units) = products
    partitions = list(set_partitions([0, 1, 2, 3]))
    assert len(partitions) == 15
    expected = np.empty((len(units), len(other_units)))
    for k, m in itertools.product(range(len(units)), range(len(other_units))):
        four = [*units[k], *other_units[m]]
        expected[k, m] = sum(math.prod(cumulant([four[i] for i in block]) for block in each) for each in partitions)
    return D @ expected @ other_D.T


# --- One layer


@pytest.mark.parametrize("moment", [None, some_moment(3), some_moment(3, seed=1)], ids=["identity", "other", "third"])
def test_one_layer_against_explicit_tensors(moment):
    A, B = [ts.Bilinear.random(3, 4, 2, rng=1, dtype=DOUBLE)], [ts.Bilinear.random(3, 6, 5, rng=2, dtype=DOUBLE)]
    raw, other = raw_tensor(A), raw_tensor(B)
    swaps = tree_automorphisms(1)
    S = np.eye(4) if moment is None else moment
    sym, other_sym = averaged(raw, swaps), averaged(other, swaps)
    m = S[0]
    metric_tensor = (
        np.einsum("ij,kl->ijkl", S, S) + np.einsum("ik,jl->ijkl", S, S) + np.einsum("il,jk->ijkl", S, S)
        - 2 * np.einsum("i,j,k,l->ijkl", m, m, m, m)
    )  # fmt: skip
    expected = {
        "raw": contracted(raw, other, S),
        "sym": contracted(sym, other_sym, S),
        "gauss": np.einsum("oij,ijkl,pkl->op", sym, metric_tensor, other_sym),
    }
    for metric, product in expected.items():
        found = ts.gram(A, B, metric, second_moment=moment)
        assert found.shape == (2, 5) and found.dtype == np.float64
        np.testing.assert_allclose(found, product, rtol=0, atol=1e-14 * np.abs(product).max())
        np.testing.assert_array_equal(found, ts.gram(A[0], B[0], metric, second_moment=moment, method="exact"))
    np.testing.assert_allclose(expected["gauss"], quadrature(A, B, S, 3), atol=1e-13 * np.abs(expected["gauss"]).max())


def test_one_layer_against_forms():
    """Per output 2⟨Q, Q'⟩ + tr Q tr Q' − 2 Q₀₀ Q'₀₀, and ⟨Q, Q'⟩."""
    A, B = (ts.Bilinear.random(5, 7, 3, rng=seed, dtype=DOUBLE) for seed in (1, 2))
    P, Q = A.forms(), B.forms()
    inner = np.einsum("oij,pij->op", P, Q)
    trace, other = (np.trace(each, axis1=1, axis2=2) for each in (P, Q))
    gauss = 2 * inner + np.outer(trace, other) - 2 * np.outer(P[:, 0, 0], Q[:, 0, 0])
    np.testing.assert_allclose(ts.gram(A, B, "sym"), inner, atol=1e-14)
    np.testing.assert_allclose(ts.gram(A, B, "gauss"), gauss, atol=1e-13)


# --- Stacks


@pytest.mark.parametrize(
    "widths, other_widths", [([2, 3, 2], [2, 2, 2]), ([2, 2, 1, 2], [2, 1, 2, 1])], ids=["2", "3"]
)
@pytest.mark.parametrize("moment", [None, some_moment(2)], ids=["identity", "other"])
def test_the_layered_sym_is_the_average_over_the_tree(widths, other_widths, moment):
    A, B = stack_of(widths, 2, seed=1), stack_of(other_widths, 3, seed=2)
    automorphisms = tree_automorphisms(len(widths) - 1)
    assert len(set(automorphisms)) == {3: 8, 4: 128}[len(widths)]
    expected = contracted(averaged(raw_tensor(A), automorphisms), raw_tensor(B), moment)
    found = ts.gram(A, B, "sym", second_moment=moment, method="closure")
    np.testing.assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max())
    expected = contracted(raw_tensor(A), raw_tensor(B), moment)
    np.testing.assert_allclose(ts.gram(A, B, "raw", moment), expected, atol=1e-13 * np.abs(expected).max())


def test_the_layered_gauss_takes_hidden_states_for_gaussian():
    """The second layer of both networks by quadrature over a Gaussian with the true moments of both hidden states."""
    A, B = stack_of([3, 2, 2], 4, seed=1), stack_of([3, 2, 3], 5, seed=2)
    (a, top_a), (b, top_b) = A.folded(), B.folded()
    both = [ts.Bilinear(np.eye(4), np.zeros((4, 4)), np.zeros((4, 4)))]  # both hidden states, as one layer
    both[0] = ts.Bilinear(
        np.block([[a.D.detach().numpy(), np.zeros((2, 5))], [np.zeros((2, 4)), b.D.detach().numpy()]]),
        np.concatenate([a.L.detach().numpy(), b.L.detach().numpy()]),
        np.concatenate([a.R.detach().numpy(), b.R.detach().numpy()]),
    )
    one = [ts.Bilinear([[1.0]], [[1.0, 0, 0, 0]], [[1.0, 0, 0, 0]])]
    mean, second = quadrature(one, both, np.eye(4), 3)[0], quadrature(both, both, np.eye(4), 3)
    S = ts.moment_matrix(mean, second - np.outer(mean, mean))
    of_a, of_b = (top.after(np.eye(4)[rows]) for top, rows in ((top_a, [0, 1]), (top_b, [2, 3])))
    expected = quadrature([of_a], [of_b], S, 3)
    np.testing.assert_allclose(ts.gram(A, B, method="closure"), expected, atol=1e-12 * np.abs(expected).max())
    true = quadrature(A, B, np.eye(4), 5)
    assert np.abs(expected - true).max() > 0.01 * np.abs(true).max(), "a closure that closes nothing tests nothing"


@pytest.mark.parametrize("residual", [False, True])
def test_two_layers_are_exact_under_sym(residual):
    A, B = stack_of([2, 2, 2], 3, seed=1, residual=residual), stack_of([2, 2, 2], 2, seed=2, residual=residual)
    everyone = list(itertools.permutations(range(4)))
    for moment in (None, some_moment(2)):
        expected = contracted(averaged(raw_tensor(A), everyone), raw_tensor(B), moment)
        found = ts.gram(A, B, "sym", moment)
        np.testing.assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("residual", [False, True])
def test_two_layers_are_exact_under_gauss(residual):
    A, B = stack_of([3, 3, 3], 4, seed=1, residual=residual), stack_of([3, 3, 3], 2, seed=2, residual=residual)
    for moment in (None, some_moment(3)):
        expected = quadrature(A, B, np.eye(4) if moment is None else moment, 5)
        np.testing.assert_allclose(ts.gram(A, B, "gauss", moment), expected, atol=1e-12 * np.abs(expected).max())
    expected = cumulant_gram(A, B)
    np.testing.assert_allclose(ts.gram(A, B), expected, atol=1e-13 * np.abs(expected).max())


def test_a_second_moment_without_variance_in_some_direction():
    S = ts.moment_matrix([0.5, -1.0, 2.0], np.diag([1.0, 0.0, 0.0]))
    A, B = stack_of([3, 3, 2], 4, seed=1), stack_of([3, 2, 2], 4, seed=2)
    expected = quadrature(A, B, S, 5)
    np.testing.assert_allclose(ts.gram(A, B, second_moment=S), expected, atol=1e-12 * np.abs(expected).max())


def test_sym_may_weigh_inputs_by_any_semidefinite_matrix():
    S = np.diag([0.0, 2.0, 3.0])
    A, B = stack_of([2, 2, 2], 3, seed=1), stack_of([2, 2, 2], 3, seed=2)
    expected = contracted(averaged(raw_tensor(A), list(itertools.permutations(range(4)))), raw_tensor(B), S)
    np.testing.assert_allclose(ts.gram(A, B, "sym", S), expected, atol=1e-13 * np.abs(expected).max())


# --- Drawn inputs


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("moment", [None, some_moment(4)], ids=["identity", "other"])
def test_drawn_inputs_agree_with_what_is_exact(depth, moment):
    A = stack_of([4] * depth + [3], 5, seed=1)
    B = noisy(A, 0.3)
    drawn = ts.monte_carlo(A, B, 40_000, rng=0, second_moment=moment)
    exact = ts.similarity(A, B, second_moment=moment)
    assert drawn.method == "Monte Carlo" and exact.method == "exact"
    assert 0 < drawn.error < 0.02
    assert abs(drawn - exact) < 4 * drawn.error
    assert exact < 1 - 10 * drawn.error, "a real change must be seen"


def test_the_error_of_drawn_inputs_is_what_it_says():
    A, B = (ts.Bilinear.random(4, 5, 3, rng=seed) for seed in (1, 2))
    exact = ts.similarity(A, B)
    drawn = [ts.monte_carlo(A, B, 2000, rng=seed) for seed in range(60)]
    z = np.array([(each - exact) / each.error for each in drawn])
    assert abs(z.mean()) < 0.5 and 0.7 < z.std() < 1.4


def test_drawn_inputs_tell_the_closure_from_the_truth():
    A, B = counterexample()
    drawn = ts.monte_carlo(A, B, 5000, rng=0)
    assert drawn == pytest.approx(1) and ts.similarity(A, B, method="closure") == 0


# --- What the closure misses


def counterexample():
    """(x₁x₂)(x₃x₄) and (x₁x₃)(x₂x₄), the same function."""

    def product(*pairs):
        L, R = np.zeros((2, 2, 5))
        for unit, (i, j) in enumerate(pairs):
            L[unit, i] = R[unit, j] = 1
        return [ts.Bilinear(np.eye(2), L, R), ts.Bilinear([[1.0]], [[0, 1.0, 0]], [[0, 0, 1.0]])]

    return product((1, 2), (3, 4)), product((1, 3), (2, 4))


@pytest.mark.parametrize("metric", ["gauss", "sym"])
def test_one_function_that_the_closure_takes_for_orthogonal(metric):
    A, B = counterexample()
    x = torch.randn(20, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(function(A, x), function(B, x))
    closed, exact = ts.similarity(A, B, metric, method="closure"), ts.similarity(A, B, metric)
    assert (closed.method, exact.method) == ("closure", "exact")
    assert closed == 0 and abs(exact - 1) < 1e-14


@pytest.mark.parametrize("metric", ["gauss", "sym"])
@pytest.mark.parametrize("seed", range(3))
def test_independent_residual_blocks_in_either_order(metric, seed):
    blocks = []
    for place, rows in enumerate((slice(0, 3), slice(3, 6))):
        small = ts.Bilinear.random(3, 5, 3, rng=10 * seed + place, dtype=DOUBLE)
        D, L, R = np.zeros((6, 5)), np.zeros((5, 7)), np.zeros((5, 7))
        D[rows] = small.D.detach().numpy()
        for wide, narrow in ((L, small.L), (R, small.R)):
            wide[:, 0], wide[:, 1:][:, rows] = narrow.detach().numpy()[:, 0], narrow.detach().numpy()[:, 1:]
        blocks.append(ts.Bilinear(D, L, R))
    A, B = ts.BilinearStack(blocks, residual=True), ts.BilinearStack(blocks[::-1], residual=True)
    x = torch.randn(20, 6, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(function(A, x), function(B, x))
    assert abs(ts.similarity(A, B, metric) - 1) < 1e-12
    assert 0.5 < ts.similarity(A, B, metric, method="closure") < 0.99
    assert ts.distance(A, B, metric) < 1e-7 < 0.1 < ts.distance(A, B, metric, method="closure")


# --- Invariances, each with a neighbour that is a real change


def noisy(network, size, seed=5):
    rng = np.random.default_rng(seed)
    return [
        ts.Bilinear(*(W + size * W.std() * rng.normal(size=W.shape) for W in layer)) for layer in layers_of(network)
    ]


def permuted(D, L, R, rng, honest):
    order = np.roll(np.arange(len(L)), 1)
    return D[:, order], L[order], R[order] if honest else R


def swapped(D, L, R, rng, honest):
    some = np.arange(len(L)) % 2 == 0
    new_L, new_R = np.where(some[:, None], R, L), np.where(some[:, None], L, R)
    return D, new_L, new_R if honest else R


def rescaled(D, L, R, rng, honest):
    c = np.exp(rng.normal(size=(len(L), 1)))
    return D, c * L, R / c if honest else R


def signed(D, L, R, rng, honest):
    s = np.where(np.arange(len(L)) % 2, 1.0, -1.0)
    return (D * s if honest else D), s[:, None] * L, R


def with_antisymmetric_units(D, L, R, rng, honest):
    """(a)(b) − (b)(a) adds nothing to the function; (a)(b) + (b)(a) does."""
    a, b, d = rng.normal(size=L.shape[1]), rng.normal(size=L.shape[1]), rng.normal(size=(len(D), 1))
    return np.concatenate([D, d, -d if honest else d], axis=1), np.stack([*L, a, b]), np.stack([*R, b, a])


def split(D, L, R, rng, honest):
    """Every unit in two, of a share each."""
    share = rng.uniform(0.2, 0.8, size=len(L))
    rest = 1 - share if honest else share**2
    return np.concatenate([D * share, D * rest], axis=1), np.concatenate([L, L]), np.concatenate([R, R])


def turned(layers, rng, honest):
    """Another basis between layers."""
    layers = [list(layer) for layer in layers]
    for before, after in itertools.pairwise(layers):
        B = rng.normal(size=(len(before[0]), len(before[0]))) + 2 * np.eye(len(before[0]))
        before[0] = B @ before[0]
        for side in (1, 2):
            back = np.linalg.inv(B) if honest or side == 1 else np.eye(len(B))
            after[side] = np.concatenate([after[side][:, :1], after[side][:, 1:] @ back], axis=1)
    return layers


INVARIANCES = {
    "hidden permutation": permuted,
    "L and R swapped": swapped,
    "rescaling": rescaled,
    "signs": signed,
    "antisymmetric units": with_antisymmetric_units,
    "split units": split,
    "basis between layers": turned,
}


def changed(network, name, honest):
    layers, rng = layers_of(network), np.random.default_rng(7)
    if name == "basis between layers":
        layers = turned(layers, rng, honest)
    else:
        layers = [INVARIANCES[name](*layer, rng, honest) for layer in layers]
    return [ts.Bilinear(*layer) for layer in layers]


@pytest.mark.parametrize(
    "name, depth",
    [(name, depth) for name in INVARIANCES for depth in (1, 2, 3) if depth > 1 or name != "basis between layers"],
)
def test_the_factors_do_not_matter_but_the_function_does(name, depth):
    A = stack_of([4] * depth + [3], 6, seed=depth)
    same, other = (changed(A, name, honest) for honest in (True, False))
    for metric, method in itertools.product(("gauss", "sym"), METHODS if depth < 3 else ("closure",)):
        assert abs(ts.similarity(A, same, metric, method=method) - 1) < 1e-12
        assert ts.similarity(A, other, metric, method=method) < 0.999
    assert np.abs(np.array(ts.slices(A, same)) - 1).max() < 1e-12
    assert ts.distance(A, same) < 1e-6 < 1e-2 < ts.distance(A, other)
    if name not in ("antisymmetric units", "split units"):  # which have parameters of other shapes
        assert ts.matrix_cosine(A.folded(), same) < 0.94


@pytest.mark.parametrize("name", INVARIANCES)
def test_the_raw_tensor_takes_sides(name):
    A = stack_of([4, 4, 3], 6, seed=2)
    seen = name in ("L and R swapped", "antisymmetric units")
    assert (ts.similarity(A, changed(A, name, True), "raw") < 0.98) == seen


def test_the_scale_of_a_network_does_not_matter_and_its_sign_does():
    A, B = stack_of([4, 4, 3], 5, seed=1), stack_of([4, 4, 3], 5, seed=2)
    H = np.diag([2.0, 2.0, 2.0])
    scaled, flipped = ([*B.folded()[:1], B.folded()[1].then(each)] for each in (H, -H))
    assert ts.similarity(A, scaled) == pytest.approx(ts.similarity(A, B), abs=1e-14)
    assert ts.similarity(A, flipped) == pytest.approx(-ts.similarity(A, B), abs=1e-14)


def test_an_identity_layer_makes_a_shallow_stack_deep():
    A = stack_of([4, 3], 5)
    deep = [*A.folded(), ts.Bilinear.identity(3)]
    other = [ts.Bilinear.identity(4), *A.folded()]
    for metric in ("gauss", "sym"):
        assert abs(ts.similarity(deep, other, metric) - 1) < 1e-12
    np.testing.assert_allclose(ts.gram(deep, deep), ts.gram(A, A), rtol=1e-12)


# --- Outputs


@pytest.mark.parametrize("metric", ["gauss", "sym", "raw"])
@pytest.mark.parametrize("method", METHODS)
def test_outputs_and_slices(metric, method):
    A, B = stack_of([3, 3, 4], 5, seed=1), stack_of([3, 2, 4], 6, seed=2)
    aa, ab, bb = (ts.gram(*pair, metric, method=method) for pair in ((A, A), (A, B), (B, B)))
    whole = ts.similarity(A, B, metric, method=method)
    assert whole == pytest.approx(np.trace(ab) / np.sqrt(np.trace(aa) * np.trace(bb)), abs=1e-14)
    each = np.array(ts.slices(A, B, metric, method=method))
    np.testing.assert_allclose(each, np.diag(ab) / np.sqrt(np.diag(aa) * np.diag(bb)), atol=1e-14)
    for output in range(4):
        assert ts.similarity(A, B, metric, outputs=output, method=method) == pytest.approx(each[output], abs=1e-14)
    some = ts.similarity(A, B, metric, outputs=[1, 3], method=method)
    picked = [(each[1, 1] + each[3, 3]) for each in (aa, ab, bb)]
    assert some == pytest.approx(picked[1] / np.sqrt(picked[0] * picked[2]), abs=1e-14)
    assert ts.distance(A, B, metric, outputs=[1, 3], method=method) == pytest.approx(
        np.sqrt((picked[0] - 2 * picked[1] + picked[2]) / picked[0]), rel=1e-10
    )
    np.testing.assert_allclose(aa, ts.gram(A, stack_of([3, 3, 4], 5, seed=1), metric, method=method), atol=1e-14)


def test_an_output_of_zeros_has_no_slice():
    A = ts.Bilinear.random(3, 4, 2, rng=0, dtype=DOUBLE)
    B = A.then([[1.0, 0.0], [0.0, 0.0]])
    first, second = ts.slices(A, B)
    assert first == pytest.approx(1) and np.isnan(second) and second.method == "exact"
    assert ts.distance(B, B) == 0 and ts.distance(A, B, outputs=1) == pytest.approx(1)


# --- Differences


@pytest.mark.parametrize(
    "widths, other_widths", [([3, 2], [3, 2]), ([3, 4, 2], [3, 2, 2]), ([3, 2, 4, 2], [3, 3, 2, 2])]
)
def test_the_difference_is_a_network(widths, other_widths):
    A, B = stack_of(widths, 4, seed=1), stack_of(other_widths, 6, seed=2)
    x = torch.randn(20, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    both = ts.difference(A, B)
    np.testing.assert_allclose(function(both, x), function(A, x) - function(B, x), atol=1e-12)
    for metric, method in itertools.product(("gauss", "sym", "raw"), METHODS):
        if method == "exact" and len(widths) > 3:
            continue
        aa, ab, bb = (ts.gram(*pair, metric, method=method) for pair in ((A, A), (A, B), (B, B)))
        found = ts.gram(both, both, metric, method=method)
        np.testing.assert_allclose(found, aa - ab - ab.T + bb, atol=1e-11 * np.abs(aa).max())
        expected = np.sqrt(np.trace(found) / np.trace(aa))
        assert ts.distance(A, B, metric, method=method) == pytest.approx(expected, rel=1e-12)


def test_the_difference_of_one_layer_is_the_stacked_layer():
    A, B = (ts.Bilinear.random(4, 5, 3, rng=seed, dtype=DOUBLE) for seed in (1, 2))
    stacked = ts.Bilinear(torch.cat([A.D, -B.D], dim=1), torch.cat([A.L, B.L]), torch.cat([A.R, B.R]))
    for metric in ("gauss", "sym"):
        assert abs(ts.similarity(stacked, ts.difference(A, B), metric) - 1) < 1e-13
        assert ts.distance(stacked, ts.difference(A, B), metric) < 1e-7


def close_pair(dtype, change, seed=0):
    """Layers whose weights differ by `change` of their size, as far as the dtype can tell."""
    A = ts.Bilinear.random(6, 8, 3, rng=seed, dtype=DOUBLE)
    rng = np.random.default_rng(seed + 1)
    weights = [W.detach().numpy() for W in (A.D, A.L, A.R)]
    return [
        ts.Bilinear(*(np.asarray(W * (1 + each * change * rng.normal(size=W.shape)), dtype=dtype) for W in weights))
        for each in (0, 1)
    ]


@pytest.mark.parametrize("dtype, change", [(np.float32, 1e-4), (np.float64, 1e-9)])
@pytest.mark.parametrize("metric", ["gauss", "sym"])
def test_a_distance_is_right_however_close_the_networks_are(dtype, change, metric):
    A, B = close_pair(dtype, change)
    forms = A.forms(), B.forms() - A.forms()
    squares = []
    for Q in forms:
        trace = np.trace(Q, axis1=1, axis2=2)
        gauss = 2 * (Q**2).sum() + trace @ trace - 2 * (Q[:, 0, 0] ** 2).sum()
        squares.append((Q**2).sum() if metric == "sym" else gauss)
    truth = np.sqrt(squares[1] / squares[0])
    assert change / 10 < truth < 10 * change
    found = ts.distance(A, B, metric)
    assert found == pytest.approx(truth, rel=1e-6 if dtype == np.float64 else 1e-9)
    # the same in the precision of the weights, by the norms: nothing of the difference is left
    aa, ab, bb = (dtype(np.trace(ts.gram(*pair, metric))) for pair in ((A, A), (A, B), (B, B)))
    assert abs(np.sqrt(np.abs(aa - 2 * ab + bb) / aa) - truth) > truth / 20


@pytest.mark.parametrize("depth, method", [(2, "exact"), (2, "closure"), (3, "closure")])
def test_a_distance_of_stacks_is_proportional_to_a_tiny_change(depth, method):
    A = stack_of([3] * depth + [2], 4, seed=1)
    weights = layers_of(A)
    rng = np.random.default_rng(0)
    directions = [[rng.normal(size=W.shape) for W in layer] for layer in weights]
    for metric in ("gauss", "sym"):
        ratios = []
        for size in (2.0**-20, 2.0**-36):
            moved = [
                ts.Bilinear(*(W + size * V for W, V in zip(layer, along, strict=True)))
                for layer, along in zip(weights, directions, strict=True)
            ]
            ratios.append(ts.distance(A, moved, metric, method=method) / size)
        assert ratios[1] == pytest.approx(ratios[0], rel=1e-4)


# --- Precision and range


def test_large_and_small_weights_keep_their_cosine():
    """aa · bb is beyond float64 here, √aa · √bb is not."""
    A, B = (ts.Bilinear.random(4, 5, 3, rng=seed, dtype=DOUBLE) for seed in (1, 2))
    cosine = ts.similarity(A, B)
    for size in (1e120, 1e-120):
        big = [each.then(size * np.eye(3)) for each in (A, B)]
        assert ts.similarity(*big) == pytest.approx(cosine, abs=1e-14)
        assert ts.distance(*big) == pytest.approx(ts.distance(A, B), rel=1e-13)


def test_float32_weights_are_computed_in_float64():
    A, B = stack_of([4, 4, 3], 5, seed=1).float(), stack_of([4, 4, 3], 5, seed=2).float()
    wide = [ts.BilinearStack(net.folded()).double() for net in (A, B)]
    assert ts.similarity(A, B) == ts.similarity(*wide)


# --- The result


def test_a_measure_is_a_float_that_knows_its_method():
    A, B = stack_of([3, 3, 3, 2], 4, seed=1), stack_of([3, 3, 3, 2], 4, seed=2)
    result = ts.similarity(A, B, "sym")
    assert isinstance(result, float) and (result.metric, result.method, result.error) == ("sym", "closure", 0.0)
    assert type(result.value) is float and type(float(result)) is float and result.value == result
    assert repr(result) == f"{result.value:.6g} (sym, closure)" and f"{result:.2f}" == f"{result.value:.2f}"
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.method == "closure"
    assert "±" in repr(ts.monte_carlo(A, B, 10))
    assert ts.similarity(A, A, "raw").method == "exact"
    assert ts.distance(A, B).method == "closure" and ts.slices(A, B)[0].method == "closure"


def test_a_moment_matrix_is_that_of_its_draws():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 3)) + 1
    lifted = np.concatenate([np.ones((1000, 1)), x], axis=1)
    np.testing.assert_allclose(ts.moment_matrix(x.mean(axis=0), np.cov(x.T, bias=True)), lifted.T @ lifted / 1000)
