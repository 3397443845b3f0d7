"""Inner products of bilinear attention against explicit tensors of order five, and in loops; invariances."""

import itertools

import numpy as np
import pytest
import torch

import tasksym as ts

DOUBLE = torch.float64
SWAPS = [(0, 1, 2, 3, 4), (1, 0, 3, 2, 4)]  # of the two scores as wholes
APART = [
    (*q, *(2 + i for i in kv)) for q in itertools.permutations(range(2)) for kv in itertools.permutations(range(3))
]
TOGETHER = list(itertools.permutations(range(5)))


def attention(seed, width=3, heads=2, size=2, **settings):
    return ts.BilinearAttention.random(width, heads, size, rng=seed, dtype=DOUBLE, **settings)


def some_moment(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n


def explicit(layer, t, s):
    """Coefficients (out, q₁, q₂, k₁, k₂, v) of what position s adds to position t."""
    Q, K, V, O = (W.detach().numpy() for W in (layer.Q, layer.K, layer.V, layer.O))  # noqa: E741
    size = V.shape[1]
    turns = (
        ts.attention.rotations(max(t, s) + 1, size).numpy() if layer.rotary else np.eye(size)[None].repeat(9, axis=0)
    )
    total = 0
    for h in range(len(V)):
        first, second = ((turns[t] @ Q[c, h]).T @ (turns[s] @ K[c, h]) for c in (0, 1))
        total = total + np.einsum("ab,cd,of->oacbdf", first, second, O[h] @ V[h]) / size**2
    return total


def averaged(tensor, permutations):
    return sum(np.transpose(tensor, (0, *(1 + i for i in order))) for order in permutations) / len(permutations)


def explicit_gram(A, B, positions, S, symmetrised):
    """Per position, the sum over s of inner products of tensors, averaged as `symmetrised` says for (s < t, s = t)."""
    products = []
    for t in range(positions):
        total = S.copy() if A.residual and B.residual else np.zeros_like(S)
        for s in range(t + 1):
            a, b = (averaged(explicit(layer, t, s), symmetrised[s == t]) for layer in (A, B))
            for axis in range(1, 6):
                b = np.moveaxis(np.tensordot(b, S, axes=(axis, 0)), -1, axis)
            total += a.reshape(len(a), -1) @ b.reshape(len(b), -1).T
        products.append(total)
    return np.stack(products)


def test_the_explicit_tensor_is_the_layer():
    layer, x = attention(0, residual=False), np.random.default_rng(0).normal(size=(4, 3))
    expected = [
        sum(
            np.einsum("oabcde,a,b,c,d,e->o", explicit(layer, t, s), x[t], x[t], x[s], x[s], x[s]) for s in range(t + 1)
        )
        for t in range(4)
    ]
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("method, symmetrised", [("closure", (SWAPS, SWAPS)), ("exact", (APART, TOGETHER))])
@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_one_layer_against_explicit_tensors(method, symmetrised, rotary, residual):
    A, B = (
        attention(1, rotary=rotary, residual=residual),
        attention(2, heads=1, size=4, rotary=rotary, residual=residual),
    )
    for S in (np.eye(3), some_moment(3)):
        expected = explicit_gram(A, B, 3, S, symmetrised)
        found = ts.attention_gram(A, B, 3, S, method)
        np.testing.assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max())
    if method == "exact":
        np.testing.assert_array_equal(found, ts.attention_gram(A, B, 3, S))


def looped(A, B, positions):
    """The recursion written out: a head, a position and a score at a time."""
    embeddings, heads = [
        [W.detach().numpy() for W in part] for part in zip((A.embedding, A.head), (B.embedding, B.head), strict=True)
    ]
    states = [embeddings[0] @ embeddings[1].T] * positions
    for a, b in zip(A.layers, B.layers, strict=True):
        after = []
        turns = [ts.attention.rotations(positions, layer.size).numpy() for layer in (a, b)]
        (Q, K, V, O), (Q2, K2, V2, O2) = ([W.detach().numpy() for W in (net.Q, net.K, net.V, net.O)] for net in (a, b))  # noqa: E741
        for t in range(positions):
            total = states[t].copy()
            for s, h, g in itertools.product(range(t + 1), range(len(V)), range(len(V2))):
                w = np.empty((2, 2))
                for i, j in itertools.product((0, 1), (0, 1)):
                    q = turns[0][t] @ Q[i, h] @ states[t] @ (turns[1][t] @ Q2[j, g]).T
                    k = turns[0][s] @ K[i, h] @ states[s] @ (turns[1][s] @ K2[j, g]).T
                    w[i, j] = (q * k).sum()
                value = O[h] @ V[h] @ states[s] @ V2[g].T @ O2[g].T
                total += value * (w[0, 0] * w[1, 1] + w[0, 1] * w[1, 0]) / 2 / a.size**2 / b.size**2
            after.append(total)
        states = after
    return np.stack([heads[0] @ state @ heads[1].T for state in states])


def model(seed, depth, width=4, **settings):
    rng = np.random.default_rng(seed)
    layers = [attention(rng, width=width, **settings) for _ in range(depth)]
    return ts.AttentionStack(layers, embedding=rng.normal(size=(width, 5)), head=rng.normal(size=(6, width)))


def test_stacks_against_the_recursion_in_loops():
    A, B = model(1, 2), model(2, 2, width=3, size=4)
    expected = looped(A, B, 4)
    np.testing.assert_allclose(ts.attention_gram(A, B, 4), expected, atol=1e-13 * np.abs(expected).max())
    found = ts.attention_similarity(A, B, 4)
    norms = [np.einsum("tii->", looped(each, each, 4)) for each in (A, B)]
    assert found == pytest.approx(np.einsum("tii->", expected) / np.sqrt(norms[0] * norms[1]), abs=1e-13)
    assert (found.metric, found.method) == ("sym", "closure")
    some = ts.attention_similarity(A, B, 4, outputs=[2, 5])
    picked = [np.einsum("tii->", looped(*pair, 4)[:, [2, 5]][:, :, [2, 5]]) for pair in ((A, A), (A, B), (B, B))]
    assert some == pytest.approx(picked[1] / np.sqrt(picked[0] * picked[2]), abs=1e-13)


def test_a_one_hot_second_moment_weighs_tokens():
    p = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    A, B = model(1, 1), model(2, 1)
    weighted = [
        ts.AttentionStack(net.layers, embedding=net.embedding.detach().numpy() * np.sqrt(p), head=net.head)
        for net in (A, B)
    ]
    np.testing.assert_allclose(ts.attention_gram(A, B, 3, np.diag(p)), ts.attention_gram(*weighted, 3), rtol=1e-12)


# --- Invariances, each with a neighbour that is a real change


def rebuilt(net, change, honest):
    rng = np.random.default_rng(3)
    layers = []
    for layer in net.layers:
        arrays = [W.detach().numpy().copy() for W in (layer.Q, layer.K, layer.V, layer.O)]
        layers.append(
            ts.BilinearAttention(*change(*arrays, rng, honest), rotary=layer.rotary, residual=layer.residual)
        )
    return ts.AttentionStack(layers, embedding=net.embedding, head=net.head)


def heads_permuted(Q, K, V, O, rng, honest):  # noqa: E741
    return Q[:, ::-1], K[:, ::-1], V[::-1], O[::-1] if honest else O


def scores_swapped(Q, K, V, O, rng, honest):  # noqa: E741
    return Q[::-1], K[::-1] if honest else K, V, O


def scores_rescaled(Q, K, V, O, rng, honest):  # noqa: E741
    c = np.exp(rng.normal(size=(*Q.shape[:2], 1, 1)))
    return c * Q, K / c if honest else K, V, O


def value_basis(Q, K, V, O, rng, honest):  # noqa: E741
    M = rng.normal(size=(V.shape[1], V.shape[1])) + 2 * np.eye(V.shape[1])
    return Q, K, M @ V, O @ np.linalg.inv(M) if honest else O


def planes_turned(Q, K, V, O, rng, honest):  # noqa: E741
    """Rotations of the planes commute with the rotary ones."""
    turn = ts.attention.rotations(2, V.shape[1]).numpy()[1]
    return turn @ Q, turn @ K if honest else K, V, O


GAUGES = [heads_permuted, scores_swapped, scores_rescaled, value_basis, planes_turned]


@pytest.mark.parametrize("change", GAUGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("depth", [1, 2])
def test_the_factors_do_not_matter_but_the_function_does(change, depth):
    A = model(1, depth, size=4)
    tokens = torch.tensor([[0, 3, 1, 4, 2]])
    same, other = (rebuilt(A, change, honest) for honest in (True, False))
    torch.testing.assert_close(same(tokens), A(tokens))
    assert not torch.allclose(other(tokens), A(tokens))
    for method in ("closure", "exact") if depth == 1 else ("closure",):
        assert abs(ts.attention_similarity(A, same, 5, method=method) - 1) < 1e-12
        assert ts.attention_similarity(A, other, 5, method=method) < 0.999
    assert ts.matrix_cosine(A, same) < 0.95


def test_the_basis_of_the_states_does_not_matter():
    A, M = model(1, 2), np.random.default_rng(0).normal(size=(4, 4)) + 2 * np.eye(4)
    back = np.linalg.inv(M)
    for way_back, same in ((back, True), (back.T, False)):
        layers = []
        for layer in A.layers:
            Q, K, V, O = (W.detach().numpy() for W in (layer.Q, layer.K, layer.V, layer.O))  # noqa: E741
            layers.append(ts.BilinearAttention(Q @ way_back, K @ way_back, V @ way_back, M @ O))
        B = ts.AttentionStack(layers, embedding=M @ A.embedding.detach().numpy(), head=A.head.detach().numpy() @ back)
        assert (abs(ts.attention_similarity(A, B, 4) - 1) < 1e-12) == same


def test_one_function_that_the_closure_takes_for_another():
    """Heads of size 1 without rotations: k₁ and v are both a number times x_s, and may change places."""
    A = attention(0, width=4, size=1, rotary=False, residual=False)
    Q, K, V, O = (W.detach().numpy() for W in (A.Q, A.K, A.V, A.O))  # noqa: E741
    B = ts.BilinearAttention(Q, np.stack([V, K[1]]), K[0], O, rotary=False, residual=False)
    x = torch.randn(6, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(A(x), B(x))
    exact, closed = (ts.attention_similarity(A, B, 3, method=method) for method in ("auto", "closure"))
    assert (exact.method, closed.method) == ("exact", "closure")
    assert abs(exact - 1) < 1e-12 and closed < 0.9


def test_queries_and_keys_are_one_at_the_first_position_only():
    """There s = t: q₁ and v take the same input, too, and the symmetrisation knows it."""
    A = attention(0, width=4, size=1, rotary=False, residual=False)
    Q, K, V, O = (W.detach().numpy() for W in (A.Q, A.K, A.V, A.O))  # noqa: E741
    B = ts.BilinearAttention(np.stack([V, Q[1]]), K, Q[0], O, rotary=False, residual=False)
    assert abs(ts.attention_similarity(A, B, 1) - 1) < 1e-12
    assert ts.attention_similarity(A, B, 2) < 0.95
