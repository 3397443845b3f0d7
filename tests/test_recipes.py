"""Starts and parametrisations: the distribution that each one promises."""

import math

import numpy as np
import pytest
import torch

import tasksym as ts

N = 200


def start(name, gain=1.0, seed=0):
    return ts.STARTS[name](N, gain, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ts.STARTS)
def test_a_start_is_proportional_to_its_gain(name):
    np.testing.assert_allclose(start(name, gain=0.3), 0.3 * start(name), atol=1e-15)
    assert start(name).shape == (N, N)


@pytest.mark.parametrize("name", sorted(set(ts.STARTS) - {"identity"}))
def test_a_start_is_drawn_anew_for_every_seed(name):
    np.testing.assert_array_equal(start(name, seed=1), start(name, seed=1))
    assert (start(name, seed=1) != start(name, seed=2)).any()


def test_gaussian_fills_a_disc_of_its_gain():
    W = start("gaussian", gain=0.5)
    assert W.std() == pytest.approx(0.5 / math.sqrt(N), rel=0.02) and abs(W.mean()) < 1e-3
    assert np.abs(np.linalg.eigvals(W)).max() == pytest.approx(0.5, rel=0.1)


def test_orthogonal_is_uniform_in_the_haar_measure():
    """Orthogonal, of either determinant, and with no preferred direction: first columns are uniform on the sphere."""
    Q = start("orthogonal")
    np.testing.assert_allclose(Q.T @ Q, np.eye(N), atol=1e-13)
    rng = np.random.default_rng(0)
    small = np.array([ts.STARTS["orthogonal"](3, 1.0, rng) for _ in range(4000)])
    assert np.linalg.det(small).mean() == pytest.approx(0, abs=0.05)
    np.testing.assert_allclose(small.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose((small**2).mean(axis=0), 1 / 3, atol=0.02)
    np.testing.assert_allclose((small**4).mean(axis=0), 1 / 5, atol=0.02)
    # The trace of a Haar matrix has variance 1; plain QR, whose signs are not uniform, gives another.
    assert np.trace(small, axis1=1, axis2=2).var() == pytest.approx(1, abs=0.08)


def test_identity_is_the_identity():
    np.testing.assert_array_equal(start("identity", gain=0.9), 0.9 * np.eye(N))


def test_uniform_is_the_start_of_torch():
    W, theirs = start("uniform"), torch.nn.RNN(3, N).weight_hh_l0.detach().numpy()
    limit = 1 / math.sqrt(N)
    for matrix in (W, theirs):
        assert np.abs(matrix).max() == pytest.approx(limit, rel=0.001)
        assert matrix.std() == pytest.approx(limit / math.sqrt(3), rel=0.02)


def test_dense_is_the_parameter_itself():
    parameter = torch.randn(2, 5, 5)
    assert ts.PARAMETRISATIONS["dense"](parameter) is parameter


def test_cayley_is_its_definition():
    """Orthogonal, of determinant 1, and blind to the symmetric part; angles are −2 arctan of those of S."""
    parameter = torch.tensor(np.random.default_rng(0).normal(size=(3, 8, 8)))
    W = ts.PARAMETRISATIONS["cayley"](parameter)
    for network in range(3):
        S = (parameter[network] - parameter[network].T).numpy() / 2
        np.testing.assert_allclose(W[network], np.linalg.inv(np.eye(8) + S) @ (np.eye(8) - S), atol=1e-12)
        angles = -2 * np.arctan(np.linalg.eigvals(S).imag)
        np.testing.assert_allclose(
            np.sort(np.angle(np.linalg.eigvals(W[network].numpy()))), np.sort(angles), atol=1e-10
        )
    np.testing.assert_allclose(W.mT @ W, np.broadcast_to(np.eye(8), (3, 8, 8)), atol=1e-12)
    symmetric = torch.tensor(np.random.default_rng(1).normal(size=(8, 8)))
    torch.testing.assert_close(ts.PARAMETRISATIONS["cayley"](parameter + symmetric + symmetric.T), W)


def test_cayley_stays_orthogonal_in_training(tmp_path):
    recipe = ts.Recipe(ts.Copy(symbols=3, length=2), hidden=12, gain=1.5, parametrisation="cayley", steps=60, trials=8)
    before, after = ts.starting_networks(recipe, [0, 1]), ts.solve(recipe, [0, 1], store=ts.Store(tmp_path)).weights
    for networks in (before, after):
        W = networks.W_hh.double()
        torch.testing.assert_close(W.mT @ W, torch.eye(12).double().expand(2, 12, 12), atol=2e-6, rtol=0)
    assert (after.W_hh - before.W_hh).abs().max() > 0.01


def test_the_recipes_are_those_of_the_book():
    """The five families, as the tables of the book state them."""
    assert list(ts.RECIPES) == ["copy-dense-orthogonal", "copy-cayley", "flip-flop", "sine", "context-integration"]
    for name, recipe in ts.RECIPES.items():
        assert recipe.hidden == (72 if name.startswith("copy") else 64)
        assert recipe.trials == 64 and recipe.clip == 1.0
    assert ts.RECIPES["copy-dense-orthogonal"].task == ts.Copy(symbols=8, length=9)
    assert ts.RECIPES["flip-flop"].task == ts.FlipFlop(bits=3, steps=60, pulse_probability=0.1)
    assert ts.RECIPES["sine"].task == ts.SineGeneration(steps=100, low=0.04, high=0.12, amplitude=0.8)
    assert ts.RECIPES["context-integration"].task == ts.ContextIntegration(steps=60, mean=0.2, noise=0.1)
