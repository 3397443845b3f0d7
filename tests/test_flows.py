"""Flows along lifted symmetries: closed forms for a linear model, and what they do to trained networks."""

import math

import numpy as np
import pytest
import torch
from classifiers import classifier
from test_lifting import Fourier
from torch import nn

import tasksym as ts

A = ts.ROTATION
PROBES = ts.polar_probes(radius=1.5, radii=16, angles=48)
FEWER = ts.polar_probes(radius=1.5, radii=5, angles=16)  # enough for nine parameters


@pytest.fixture(scope="module")
def wedge():
    return classifier("wedge", 0)


def modes(model):
    """The size of each angular mode."""
    return model.weights.detach().norm(dim=0)


def test_a_resolved_orbit_turns_a_linear_model_by_the_angle():
    start = Fourier()
    path = ts.flow(start, "orbit", FEWER, A, 1.0, tolerance=1e-5, lift_tolerance=0.0)
    end = path.model()
    m = torch.arange(1, 5, dtype=torch.float64)
    a, b = start.weights.detach()
    turned = torch.stack([a * torch.cos(m) - b * torch.sin(m), a * torch.sin(m) + b * torch.cos(m)])
    assert float((end.weights.detach() - turned).abs().max()) < 1e-3
    assert path.table["time"].iloc[-1] == 1.0
    assert path.table["error"].iloc[-1] < 1e-3


def test_a_fixed_orbit_inflates_each_mode():
    start = Fourier()
    path = ts.flow(start, "orbit", FEWER, A, 1.0, resolved=False, lift_tolerance=0.0)
    m = torch.arange(1, 5, dtype=torch.float64)
    assert torch.allclose(modes(path.model()), modes(start) * torch.sqrt(1 + m**2), rtol=1e-9)


@pytest.mark.parametrize("resolved", [True, False])
def test_the_defect_of_a_linear_model_falls_as_it_should(resolved):
    path = ts.flow(Fourier(), "equivariance", FEWER, A, 2.0, resolved, tolerance=1e-5, lift_tolerance=0.0)
    s, defect = path.table["time"], path.table["defect"] / path.table["defect"][0]
    ideal = np.exp(-s) if resolved else np.abs(1 - s)
    assert np.abs(defect - ideal).max() < 1e-4
    assert path.table["drift"].max() < 1e-10
    assert (path.table["error"].max() < 1e-4) == resolved


def test_a_fixed_exact_lift_turns_and_stretches(wedge):
    """θ + t(−W₁A) maps f to f(√(1+t²) R(−arctan t) x)."""
    t = 0.7
    moved = classifier("wedge", 0)
    W = moved[0].weight.data
    moved[0].weight.data = W - t * W @ A
    turn = math.sqrt(1 + t**2) * torch.matrix_exp(-math.atan(t) * A)
    with torch.no_grad():
        assert float((moved(PROBES.points) - wedge(PROBES.points @ turn.T)).abs().max()) < 1e-12


def test_a_resolved_orbit_turns_a_network_and_keeps_its_defect(wedge):
    path = ts.flow(wedge, "orbit", PROBES, A, math.pi / 2)
    last = path.table.iloc[-1]
    assert last["error"] < 0.003
    assert last["defect"] == pytest.approx(path.table["defect"][0], rel=0.005)
    assert (path.table["residual"] <= 1.0001e-3).all() and (path.table["held_out"] < 2e-3).all()
    with torch.no_grad():  # and where no probe was
        away = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (400, 2)))
        turned, ideal = path.model()(away), wedge(away @ torch.matrix_exp(-math.pi / 2 * A).T)
        assert float((turned - ideal).norm() / ideal.norm()) < 0.005


def test_a_fixed_orbit_does_not(wedge):
    path = ts.flow(wedge, "orbit", PROBES, A, math.pi / 2, resolved=False)
    assert path.table["error"].iloc[-1] > 0.3


def test_a_resolved_flow_makes_a_network_equivariant_and_not_constant():
    path = ts.flow(classifier("annulus", 1), "equivariance", PROBES, A, 4.0)
    first, last = path.table.iloc[0], path.table.iloc[-1]
    assert last["defect"] / first["defect"] == pytest.approx(math.exp(-4), rel=0.2)
    assert last["distance"] < 0.01  # the average that it had at first, not another invariant function


def test_a_full_turn_brings_the_function_back_and_not_the_weights(wedge):
    path = ts.flow(wedge, "orbit", PROBES, A, 2 * math.pi)
    last = path.table.iloc[-1]
    assert last["error"] < 0.01
    assert last["moved"] > 0.3


def test_smaller_steps_come_closer_to_the_ideal():
    """Without damping, steps are all that a linear model's flow gets wrong."""
    coarse, fine = (ts.flow(Fourier(), "orbit", FEWER, A, 1.0, tolerance=e, lift_tolerance=0.0) for e in (1e-2, 1e-4))
    assert len(fine.table) > len(coarse.table)
    assert fine.table["error"].iloc[-1] < 0.1 * coarse.table["error"].iloc[-1]


def test_an_equivariant_map_flows_too():
    """The plane to the plane, where outputs turn with inputs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2)).double()
    small = ts.polar_probes(1.0, radii=6, angles=12)
    path = ts.flow(model, "equivariance", small, A, 2.0, output_generator=A)
    defect = path.table["defect"]
    assert defect.iloc[-1] / defect[0] == pytest.approx(math.exp(-2), rel=0.2)
    path = ts.flow(model, "orbit", small, A, 1.0, output_generator=A)
    assert path.table["error"].iloc[-1] < 0.003
    assert ts.flow(model, "orbit", small, A, 1.0, False, output_generator=A).table["error"].iloc[-1] > 0.01


def test_an_equivariant_function_stays_where_it_is():
    class Radial(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.7, -0.2], dtype=torch.float64))

        def forward(self, x):
            r2 = x.square().sum(1)
            return self.weight[0] * r2 + self.weight[1] * r2**2

    for kind in ("orbit", "equivariance"):
        path = ts.flow(Radial(), kind, FEWER, A, 1.0)
        assert path.table["error"].max() < 1e-9 and path.table["moved"].max() < 1e-6


def test_the_model_and_the_generator_of_random_numbers_are_left_alone(wedge):
    before, state = [p.clone() for p in wedge.parameters()], torch.get_rng_state()
    path = ts.flow(wedge, "orbit", PROBES, A, 0.1)
    assert all(torch.equal(p, q) for p, q in zip(wedge.parameters(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    first = torch.cat([p.detach().flatten() for p in path.model(0).parameters()])
    assert torch.equal(first, path.thetas[0]) and len(path.thetas) == len(path.table)


def test_few_probes_warn_and_the_held_out_residual_is_said(wedge):
    few = ts.polar_probes(1.5, radii=4, angles=16)
    with pytest.warns(ts.FewProbesWarning, match="64 probe values for 337 parameters"):
        path = ts.flow(wedge, "equivariance", few, A, 0.1)
    assert path.table["held_out"][0] > 2 * path.table["residual"][0]


def kinked():
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


SCATTERED = ts.Probes(np.random.default_rng(0).normal(size=(8, 2)), np.ones(8), 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.flow(classifier("wedge", 0), "symmetry", PROBES, A, 1.0), 'must be "orbit" or "equivariance"'),
        (lambda: ts.flow(classifier("wedge", 0), "orbit", SCATTERED, A, 1.0), "no orbits of this generator"),
        (lambda: ts.flow(classifier("wedge", 0), "orbit", PROBES, A, 1.0, held_out=SCATTERED), "no orbits"),
        (lambda: ts.flow(classifier("wedge", 0), "orbit", PROBES.points, A, 1.0), "probes must be Probes"),
        (lambda: ts.flow(kinked(), "orbit", PROBES, A, 1.0), "calls relu, which has a kink"),
        (lambda: ts.flow(classifier("wedge", 0), "orbit", PROBES, A, 0.0), "time must be a finite number"),
        (lambda: ts.flow(classifier("wedge", 0), "orbit", PROBES, A, 1.0, tolerance=0), "tolerance must be"),
        (lambda: ts.flow(classifier("wedge", 0), "orbit", PROBES, A, 1.0, lift_tolerance=2), "lift_tolerance must be"),
    ],
)
def test_wrong_calls_are_answered(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
