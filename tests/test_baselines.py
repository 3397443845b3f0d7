"""Baselines of tensor similarity: what they see, and what they do not."""

import numpy as np
import pytest
import torch

import tasksym as ts


def some(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_cka_is_the_alignment_of_centred_kernels():
    X, Y = some(20, 4), some(20, 6, seed=1)
    centre = np.eye(20) - 1 / 20
    K, L = centre @ X @ X.T @ centre, centre @ Y @ Y.T @ centre
    expected = (K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum())
    assert ts.linear_cka(X, Y) == pytest.approx(expected, abs=1e-14)


def test_cka_ignores_rotations_scales_and_shifts_but_no_stretch():
    X = some(50, 4)
    turn = np.linalg.qr(some(4, 4, seed=1))[0]
    assert ts.linear_cka(X, 3 * X @ turn + 1) == pytest.approx(1, abs=1e-12)
    assert ts.linear_cka(X, X @ np.diag([1, 1, 1, 9])) < 0.9


def test_matrix_cosine_is_that_of_all_parameters():
    A, B = (ts.Bilinear.random(3, 4, 2, rng=seed, dtype=torch.float64) for seed in (0, 1))
    a, b = (np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]) for net in (A, B))
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert ts.matrix_cosine(A, B) == pytest.approx(expected, abs=1e-14)
    assert ts.matrix_cosine([A, B], [A, B]) == pytest.approx(1)
    assert ts.matrix_cosine(A, ts.Bilinear(A.D, A.R, A.L)) < 0.9


def test_behavioural_cosine_is_that_of_the_outputs_on_given_inputs():
    A, B = (ts.Bilinear.random(3, 4, 2, rng=seed, dtype=torch.float64) for seed in (0, 1))
    x = some(30, 3)
    a, b = (net(x).detach().numpy() for net in (A, B))
    expected = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
    assert ts.behavioural_cosine(A, B, x) == pytest.approx(expected, abs=1e-14)
    assert ts.behavioural_cosine(A, B, x, outputs=1) == pytest.approx(
        a[:, 1] @ b[:, 1] / np.linalg.norm(a[:, 1]) / np.linalg.norm(b[:, 1]), abs=1e-14
    )
    assert ts.behavioural_cosine(A, ts.Bilinear(A.D, A.R, A.L), x) == pytest.approx(1)


def test_behaviour_where_it_is_looked_at_says_nothing_of_elsewhere():
    """Two layers that agree on a plane: the weights know better."""
    A = ts.Bilinear.random(3, 4, 2, rng=0, dtype=torch.float64)
    B = ts.Bilinear(A.D.detach().numpy(), A.L.detach().numpy() @ np.diag([1, 1, 1, -2.0]), A.R)
    x = np.concatenate([some(30, 2), np.zeros((30, 1))], axis=1)
    assert ts.behavioural_cosine(A, B, x) == pytest.approx(1)
    assert ts.similarity(A, B) < 0.8
