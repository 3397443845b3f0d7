"""The ensemble: each network against a plain loop, and the symmetries of a tanh network."""

import numpy as np
import pytest
import torch

import tasksym as ts


def some_networks(networks=3, hidden=7, inputs=2, outputs=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (networks, hidden, inputs), (networks, hidden, hidden), (networks, outputs, hidden)
    return ts.TanhRNN(*(torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes))


def rollout_slowly(networks, network, inputs):
    """One network over (time, trial, in), a trial and a step at a time."""
    W_xh, W_hh, W_hy = (matrix[network].numpy() for matrix in (networks.W_xh, networks.W_hh, networks.W_hy))
    states = np.zeros((*inputs.shape[:2], len(W_hh)))
    for trial in range(inputs.shape[1]):
        h = np.zeros(len(W_hh))
        for step in range(inputs.shape[0]):
            h = states[step, trial] = np.tanh(W_xh @ inputs[step, trial] + W_hh @ h)
    return states, states @ W_hy.T


def test_rollout_is_the_recurrence():
    networks, inputs = some_networks(), np.random.default_rng(0).normal(size=(6, 5, 2))
    states, outputs = networks.rollout(inputs)
    assert states.shape == (3, 6, 5, 7) and outputs.shape == (3, 6, 5, 4)
    for network in range(3):
        expected_states, expected_outputs = rollout_slowly(networks, network, inputs)
        np.testing.assert_allclose(states[network], expected_states, atol=1e-13)
        np.testing.assert_allclose(outputs[network], expected_outputs, atol=1e-13)
    np.testing.assert_allclose(networks.outputs(inputs), outputs, atol=1e-13)


def test_each_network_may_have_its_own_inputs():
    networks, inputs = some_networks(), np.random.default_rng(0).normal(size=(3, 6, 5, 2))
    for network in range(3):
        expected = rollout_slowly(networks, network, inputs[network])[1]
        np.testing.assert_allclose(networks.outputs(inputs)[network], expected, atol=1e-13)


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 12, 100])
def test_outputs_do_not_depend_on_the_chunks(rows, monkeypatch):
    """From one network and one trial at a time to all at once, with inputs that are shared and inputs that are not."""
    networks = some_networks()
    own = np.random.default_rng(0).normal(size=(3, 6, 5, 2))
    expected = [networks.rollout(inputs)[1] for inputs in (own, own[0])]
    monkeypatch.setattr("tasksym.networks.CHUNK_BYTES", rows * 7 * 8)
    for inputs, outputs in zip((own, own[0]), expected, strict=True):
        np.testing.assert_allclose(networks.outputs(inputs), outputs, atol=1e-13)


def test_loss_is_the_masked_mean_square():
    networks, rng = some_networks(), np.random.default_rng(0)
    inputs, targets = rng.normal(size=(3, 6, 5, 2)), torch.tensor(rng.normal(size=(3, 6, 5, 4)))
    mask = torch.tensor([True, False, True, True, False, True])
    errors = (networks.outputs(inputs) - targets).numpy()
    expected = [np.mean([errors[n, t] ** 2 for t in range(6) if mask[t]]) for n in range(3)]
    np.testing.assert_allclose(ts.loss(networks, inputs, targets, mask), expected, atol=1e-13)


def test_variants_keep_encoder_and_decoder():
    networks, inputs = some_networks(), np.random.default_rng(0).normal(size=(6, 5, 2))
    variants = networks.variants(1, torch.stack([networks.W_hh[1], torch.zeros(7, 7, dtype=torch.float64)]))
    np.testing.assert_allclose(variants.outputs(inputs)[0], networks.outputs(inputs)[1], atol=1e-13)
    memoryless = np.tanh(inputs @ networks.W_xh[1].numpy().T) @ networks.W_hy[1].numpy().T
    np.testing.assert_allclose(variants.outputs(inputs)[1], memoryless, atol=1e-13)


def transformed(networks, P):
    """The networks in hidden coordinates P h, with P orthogonal."""
    return ts.TanhRNN(P @ networks.W_xh, P @ networks.W_hh @ P.T, networks.W_hy @ P.T)


def test_signed_permutations_leave_the_outputs_as_they_are():
    networks, rng = some_networks(), np.random.default_rng(0)
    inputs = rng.normal(size=(6, 5, 2))
    P = torch.tensor(np.diag(rng.choice([-1.0, 1.0], size=7))[rng.permutation(7)])
    np.testing.assert_allclose(transformed(networks, P).outputs(inputs), networks.outputs(inputs), atol=1e-12)


def test_rotations_do_not():
    networks, rng = some_networks(), np.random.default_rng(0)
    inputs = rng.normal(size=(6, 5, 2))
    Q = torch.tensor(np.linalg.qr(rng.normal(size=(7, 7)))[0])
    assert (transformed(networks, Q).outputs(inputs) - networks.outputs(inputs)).abs().max() > 0.1


def test_to_changes_the_precision():
    networks = some_networks(dtype=torch.float32)
    assert networks.W_hh.dtype == torch.float32
    assert networks.to(torch.float64).W_hh.dtype == torch.float64
    assert len(networks) == 3


@pytest.mark.parametrize("name, axis", [("W_xh", 1), ("W_hh", 2), ("W_hy", 2)])
def test_shapes_must_agree(name, axis):
    matrices = {each: getattr(some_networks(), each) for each in ("W_xh", "W_hh", "W_hy")}
    matrices[name] = matrices[name].narrow(axis, 0, 3)
    with pytest.raises(ValueError, match=r"must have shape \(3, "):
        ts.TanhRNN(**matrices)
