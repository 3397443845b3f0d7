"""What a step does near a state: against autograd, and against the recurrence."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tasksym as ts


@pytest.fixture(scope="module")
def networks():
    return ts.reference("sine").weights.to(torch.float64)


def test_jacobians_are_autograd_s(networks):
    rng = np.random.default_rng(0)
    h, x = torch.tensor(rng.uniform(-0.9, 0.9, 64)), torch.tensor(rng.normal(size=2))

    def step(h):
        return torch.tanh(networks.W_xh[3] @ x + networks.W_hh[3] @ h)

    expected = torch.autograd.functional.jacobian(step, h)
    np.testing.assert_allclose(ts.jacobians(networks.W_hh[3], step(h)), expected, atol=1e-12)


def test_jacobians_broadcast(networks):
    states = np.random.default_rng(1).uniform(-1, 1, size=(2, 5, 64))
    found = ts.jacobians(networks.W_hh[:2, None], states)
    assert found.shape == (2, 5, 64, 64) and found.dtype == np.float64
    np.testing.assert_array_equal(found[1, 4], ts.jacobians(networks.W_hh[1], states[1, 4]))
    np.testing.assert_array_equal(ts.jacobians(networks.W_hh[0], np.zeros(64)), networks.W_hh[0])


def test_the_trajectory_spectrum_is_that_of_the_jacobians(networks):
    inputs = np.random.default_rng(2).normal(size=(5, 3, 2))
    moduli = ts.trajectory_spectrum(networks, 4, inputs)
    assert moduli.shape == (5, 3, 64) and (np.diff(moduli) <= 0).all()
    h = torch.zeros(64, dtype=torch.float64)
    for step, x in enumerate(torch.tensor(inputs[:, 1])):
        before, h = h, torch.tanh(networks.W_xh[4] @ x + networks.W_hh[4] @ h)
        drive = networks.W_xh[4] @ x
        slope = torch.autograd.functional.jacobian(
            lambda h, drive=drive: torch.tanh(drive + networks.W_hh[4] @ h), before
        )
        expected = np.sort(np.abs(np.linalg.eigvals(slope.numpy())))[::-1]
        np.testing.assert_allclose(moduli[step, 1], expected, atol=1e-8)


def test_the_trajectory_spectrum_at_rest_is_that_of_w(networks):
    moduli = ts.trajectory_spectrum(networks, 0, np.zeros((1, 1, 2)))
    expected = np.sort(np.abs(np.linalg.eigvals(networks.W_hh[0].numpy())))[::-1]
    np.testing.assert_allclose(moduli[0, 0], expected, atol=1e-8)


@pytest.mark.parametrize("states", [np.zeros(63), np.zeros(()), np.full(64, np.nan)])
def test_jacobians_refuse_what_does_not_fit(networks, states):
    with pytest.raises(ValueError, match="states"):
        ts.jacobians(networks.W_hh[0], states)


def test_a_fixed_point_stays(networks):
    constant = np.array([0.5, 1.0])
    point = ts.fixed_point(networks, 3, constant, near=np.zeros(64))
    drive = networks.W_xh[3].numpy() @ constant
    np.testing.assert_allclose(np.tanh(drive + networks.W_hh[3].numpy() @ point), point, atol=1e-9)
    assert np.abs(point).max() > 0.1


def test_a_search_that_fails_says_so(networks, monkeypatch):
    monkeypatch.setattr("scipy.optimize.root", lambda moved, near, **options: SimpleNamespace(x=near))
    with pytest.raises(RuntimeError, match="no fixed point found"):
        ts.fixed_point(networks, 3, [0.5, 1.0], near=np.zeros(64))
