"""Functional sensitivity and lifts: closed forms, finite differences, and the cases where a lift cannot be."""

import math

import numpy as np
import pytest
import torch
from classifiers import classifier, network
from torch import nn

import tasksym as ts
from tasksym._damped import gram_spectrum, solve_lift

A = ts.ROTATION
PROBES = ts.polar_probes(radius=1.5, radii=16, angles=48)
ELSEWHERE = torch.from_numpy(np.random.default_rng(1).uniform(-1, 1, (500, 2)))


@pytest.fixture(scope="module")
def wedge():
    return classifier("wedge", 0)


class Half(nn.Module):
    """f(x) = g(a x₁ + b x₂ + bias), with the column b of the first layer held at zero, or free."""

    def __init__(self, freed: bool):
        super().__init__()
        start = network(0)
        self.first = nn.Parameter(start[0].weight.detach()[:, :1].clone())
        self.second = nn.Parameter(torch.zeros(16, 1, dtype=torch.float64), requires_grad=freed)
        self.bias = nn.Parameter(start[0].bias.detach().clone())
        self.rest = start[1:]

    def forward(self, x):
        return self.rest(x @ torch.cat([self.first, self.second], dim=1).T + self.bias)


class Fourier(nn.Module):
    """f(x) = Σ_m r^m (a_m cos mφ + b_m sin mφ): linear in θ, and a rotation by t turns (a_m, b_m) by mt."""

    def __init__(self, modes=4, seed=0):
        super().__init__()
        self.modes = modes
        draw = torch.from_numpy(np.random.default_rng(seed).normal(size=(2, modes)))
        self.weights = nn.Parameter(draw)
        self.constant = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))

    def forward(self, x):
        r, angle = torch.hypot(x[:, 0], x[:, 1]), torch.atan2(x[:, 1], x[:, 0])
        m = torch.arange(1, self.modes + 1, dtype=x.dtype)
        cos, sin = torch.cos(angle[:, None] * m), torch.sin(angle[:, None] * m)
        return (
            (r[:, None] ** m) @ torch.zeros_like(m)
            + (r[:, None] ** m * (self.weights[0] * cos + self.weights[1] * sin)).sum(1)
            + self.constant
        )

    def turning(self):
        """The derivative of (a, b, constant) as the function turns, by the closed form."""
        m = torch.arange(1, self.modes + 1, dtype=torch.float64)
        a, b = self.weights.detach()
        return torch.cat([-m * b, m * a, torch.zeros(1, dtype=torch.float64)])


def vector(model):
    return torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])


def lifted(model, tolerance=0.0, probes=PROBES, target=None):
    J = ts.jacobian(model, probes.points)
    eta = ts.orbit_velocity(model, probes.points, A) if target is None else target
    away = ts.jacobian(model, ELSEWHERE), ts.orbit_velocity(model, ELSEWHERE, A)
    return ts.lift(J, eta, probes.weights, tolerance, held_out=away), J, eta


def values(model, points=PROBES.points):
    with torch.no_grad():
        return model(points).reshape(-1)


def inner(u, v, weights=PROBES.weights):
    return float((weights * u * v).sum())


# Derivatives


def test_the_jacobian_is_that_of_central_differences(wedge):
    J, theta, step = ts.jacobian(wedge, PROBES.points), vector(wedge), 1e-6
    for i in np.random.default_rng(0).choice(len(theta), 12, replace=False):
        up, down = (theta.clone() for _ in range(2))
        up[i], down[i] = theta[i] + step, theta[i] - step
        models = [network(0), network(0)]
        for model, weights in zip(models, (up, down), strict=True):
            nn.utils.vector_to_parameters(weights, model.parameters())
        difference = (values(models[0]) - values(models[1])) / (2 * step)
        assert float((J[:, i] - difference).abs().max()) < 3e-9


def test_the_orbit_velocity_is_that_of_central_differences(wedge):
    eta, step = ts.orbit_velocity(wedge, PROBES.points, A), 1e-5
    ahead, behind = (values(wedge, PROBES.points @ torch.matrix_exp(-t * A).T) for t in (step, -step))
    assert float((eta - (ahead - behind) / (2 * step)).abs().max()) < 5e-9 * float(eta.abs().max())


def test_sensitivities_are_the_weighted_root_mean_squares_of_the_columns(wedge):
    J = ts.jacobian(wedge, PROBES.points)
    plain = [
        math.sqrt(sum(w * s**2 for w, s in zip(PROBES.weights.tolist(), J[:, i].tolist(), strict=True)))
        for i in (0, 40, 336)
    ]
    assert ts.sensitivities(J, PROBES.weights)[[0, 40, 336]].tolist() == pytest.approx(plain, rel=1e-12)


def test_the_jacobian_reads_a_float32_model_in_float64_and_leaves_it_alone():
    model = network(3).float().train()
    before = vector(model)
    J = ts.jacobian(model, PROBES.points)
    assert J.dtype == torch.float64 and J.shape == (768, 337)
    assert model.training and torch.equal(vector(model), before) and before.dtype == torch.float32


def test_the_rows_of_one_point_stand_together():
    model = nn.Linear(2, 3, bias=False).double()
    J = ts.jacobian(model, PROBES.points).view(768, 3, 3, 2)
    expected = torch.einsum("oi,px->poix", torch.eye(3, dtype=torch.float64), PROBES.points)
    assert torch.equal(J, expected)


# Probes and the group average


def test_polar_probes_integrate_polynomials_over_the_disc():
    x, y = PROBES.points.T
    assert float(PROBES.weights.sum()) == pytest.approx(1, abs=1e-14)
    assert inner(x**2, y**2) == pytest.approx(1.5**4 / 24, rel=1e-13)
    assert abs(inner(x**3, y)) < 1e-15


def test_the_group_average_is_an_orthogonal_projection(wedge):
    f = values(wedge)
    average = ts.group_average(f, PROBES, A)
    assert float((ts.group_average(average, PROBES, A) - average).abs().max()) < 1e-14
    assert abs(inner(average, ts.defect(f, PROBES, A))) < 1e-14
    assert torch.allclose(average.view(16, 48), average.view(16, 48)[:, :1].expand(16, 48), rtol=0, atol=1e-14)


def test_the_velocity_is_orthogonal_to_the_defect_and_at_least_as_large(wedge):
    """Up to the quadrature along the orbits, whose error falls exponentially with the angles."""
    cosines = []
    for model, angles in ((classifier("annulus", 0), 48), (wedge, 48), (wedge, 96), (wedge, 192)):
        probes = ts.polar_probes(1.5, 16, angles)
        delta = ts.defect(values(model, probes.points), probes, A)
        eta = ts.orbit_velocity(model, probes.points, A)
        sizes = [inner(each, each, probes.weights) for each in (eta, delta)]
        assert sizes[1] <= sizes[0]
        cosines.append(abs(inner(eta, delta, probes.weights)) / math.sqrt(sizes[0] * sizes[1]))
    assert cosines[0] < 5e-6
    assert cosines[1] < 5e-3 and cosines[2] < 1e-2 * cosines[1] and cosines[3] < 1e-10
    assert abs(inner(eta, probes.points[:, 1] ** 3, probes.weights)) > 0.1 * sizes[0] ** 0.5  # not to all functions


def test_the_equivariant_part_of_a_linear_map_is_its_commuting_part():
    M = torch.tensor([[1.0, 2.0], [-0.5, 3.0]], dtype=torch.float64)
    F = PROBES.points @ M.T
    commuting = (M + A.T @ M @ A) / 2  # a quarter turn averages like the whole circle does, for 2×2
    average = ts.group_average(F, PROBES, A, output_generator=A)
    assert average.shape == F.shape
    assert float((average - PROBES.points @ commuting.T).abs().max()) < 1e-13
    model = nn.Linear(2, 2, bias=False).double()
    model.weight.data = M
    eta = ts.orbit_velocity(model, PROBES.points, A, output_generator=A)
    assert float((eta.view(-1, 2) - PROBES.points @ (A @ M - M @ A).T).abs().max()) < 1e-13


def test_orbits_in_four_dimensions_turn_position_and_momentum_together():
    both = torch.block_diag(A, A)
    starts = np.random.default_rng(0).normal(size=(3, 4))
    probes = ts.orbit_probes(starts, both, angles=8)
    p, q = probes.points[:, :2], probes.points[:, 2:]
    momentum = q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0]  # invariant
    assert float(ts.defect(momentum, probes, both).abs().max()) < 1e-14
    assert float(ts.defect(q[:, 0], probes, both).abs().max()) > 0.1


# When a symmetry lifts


def test_a_dense_first_layer_absorbs_the_rotation(wedge):
    found, J, eta = lifted(wedge)
    exact = torch.zeros(337, dtype=torch.float64)
    exact[:32] = (-wedge[0].weight.detach() @ A).flatten()
    assert ts.residual(J, exact, eta, PROBES.weights) < 1e-15
    assert found.residual < 1e-13 and found.held_out < 1e-12
    assert found.norm <= float(exact.norm())


def test_a_network_blind_to_one_input_cannot_turn():
    found, *_ = lifted(Half(freed=False))
    assert found.residual == pytest.approx(1, abs=1e-4)
    found, *_ = lifted(Half(freed=True))
    assert found.residual < 1e-12


def test_a_small_residual_alone_proves_nothing(wedge):
    free, *_ = lifted(wedge)
    frozen = classifier("wedge", 0)
    for parameter in frozen[0].parameters():
        parameter.requires_grad_(False)
    found, *_ = lifted(frozen)
    assert found.residual < 1e-4
    assert found.norm > 100 * free.norm  # no flow could follow it


def test_a_fourier_model_lifts_in_closed_form():
    model = Fourier()
    found, *_ = lifted(model)
    assert float((found.direction - model.turning()).abs().max()) < 1e-12
    assert found.dof == pytest.approx(9)


def test_more_parameters_than_probes_warns_and_says_the_held_out_residual(wedge):
    few = ts.polar_probes(1.5, radii=4, angles=16)
    J, eta = ts.jacobian(wedge, few.points), ts.orbit_velocity(wedge, few.points, A)
    noise = torch.from_numpy(
        np.random.default_rng(0).normal(size=64)
    )  # no rotation, and met on the probes all the same
    with pytest.warns(ts.FewProbesWarning, match="64 probe values for 337 parameters"):
        found = ts.lift(J, noise, few.weights, tolerance=0)
    assert found.residual < 1e-6 and found.held_out > 0.5
    away = ts.jacobian(wedge, ELSEWHERE), ts.orbit_velocity(wedge, ELSEWHERE, A)
    with pytest.warns(ts.FewProbesWarning):
        assert ts.lift(J, eta, few.weights, held_out=away).held_out == ts.residual(
            away[0], ts.lift(J, eta, few.weights, held_out=away).direction, away[1]
        )


def test_few_probes_of_a_smooth_target_still_foretell_their_neighbours(wedge):
    few = ts.polar_probes(1.0, radii=6, angles=48)
    J, eta = ts.jacobian(wedge, few.points), ts.orbit_velocity(wedge, few.points, A)
    with pytest.warns(ts.FewProbesWarning, match="288 probe values"):
        found = ts.lift(J, eta, few.weights, tolerance=1e-2)
    assert 1e-2 < found.held_out < 0.3


# Regularisation


@pytest.mark.parametrize("tolerance", [0.3, 2e-2, 1e-3, 1e-5])
def test_the_discrepancy_rule_takes_the_largest_damping_that_it_may(wedge, tolerance):
    found, J, eta = lifted(wedge, tolerance)
    assert found.residual == pytest.approx(tolerance, rel=1e-6)
    root = PROBES.weights.sqrt()
    Jw, y = root[:, None] * J, root * eta
    gram = Jw.T @ Jw
    damping = found.regularisation**2 * float(torch.linalg.eigvalsh(gram)[-1])
    plain = torch.linalg.solve(gram + damping * torch.eye(337, dtype=torch.float64), Jw.T @ y)
    assert float((plain - found.direction).norm() / found.norm) < 1e-6
    eigenvalues = torch.linalg.eigvalsh(gram)
    assert found.dof == pytest.approx(float((eigenvalues / (eigenvalues + damping)).sum()), rel=1e-6)
    assert found.norm == pytest.approx(float(found.direction.norm()))


@pytest.mark.parametrize("tolerance", [0.3, 2e-2, 1e-3])
def test_the_gram_matrix_gives_what_singular_values_give(wedge, tolerance):
    slow, J, eta = lifted(wedge, tolerance)
    root = PROBES.weights.sqrt()
    fast = solve_lift(root[:, None] * J, root * eta, tolerance, gram_spectrum)
    assert float((fast.direction - slow.direction).norm() / slow.norm) < 1e-6
    assert fast.residual == pytest.approx(slow.residual, rel=1e-6)
    assert fast.dof == pytest.approx(slow.dof, rel=1e-3)


def test_a_target_out_of_reach_gets_the_least_damping_and_says_so():
    found, *_ = lifted(Half(freed=False), tolerance=1e-3)
    assert found.residual > 0.99 and found.regularisation == pytest.approx(1e-7)


def test_nothing_to_do_is_no_direction(wedge):
    found, *_ = lifted(wedge, target=torch.zeros(768))
    assert found.norm == found.residual == 0 and not found.direction.any()


def test_scaling_the_weights_changes_nothing(wedge):
    found, J, eta = lifted(wedge, 1e-2)
    scaled = ts.lift(J, eta, 7 * PROBES.weights, 1e-2)
    assert torch.allclose(found.direction, scaled.direction, rtol=1e-9, atol=1e-12)


# Attribution


def test_the_shares_of_least_squares_sum_to_what_is_met(wedge):
    delta = -ts.defect(values(wedge), PROBES, A)
    for target in (None, delta):
        found, J, aim = lifted(wedge, 0.0, target=target)
        table = ts.attribution(wedge, J, found.direction, aim, PROBES.weights)
        assert table["share"].sum() == pytest.approx(1 - found.residual**2, abs=1e-6)
        assert list(table["size"]) == [32, 16, 256, 16, 16, 1]
    assert list(table["parameter"])[:2] == ["0.weight", "0.bias"]
    moved = (found.direction * ts.sensitivities(J, PROBES.weights))[:32]
    assert table["magnitude"][0] == pytest.approx(float(moved.norm()))


def test_the_turning_of_any_dense_network_is_attributed_to_its_first_layer():
    for kind in ("trained", "untrained"):
        model = classifier("wedge", 1, kind)
        found, J, eta = lifted(model, 1e-3)
        table = ts.attribution(model, J, found.direction, eta, PROBES.weights).set_index("parameter")
        assert table["share"]["0.weight"] > (0.9 if kind == "trained" else 0.5)


# What is refused


class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1).double()

    def forward(self, x):
        return torch.relu(self.layer(x))


def test_kinks_are_seen_wherever_they_are_called():
    with pytest.raises(ValueError, match="the model calls relu, which has a kink"):
        ts.jacobian(Clamped(), PROBES.points)
    for activation in (
        nn.ReLU(),
        nn.LeakyReLU(),
        nn.Hardtanh(),
        nn.ELU(),
        nn.PReLU().double(),
        nn.Hardswish(),
        nn.ReLU6(),
    ):
        with pytest.raises(ValueError, match="has a kink"):
            ts.orbit_velocity(nn.Sequential(nn.Linear(2, 2).double(), activation), PROBES.points, A)
    for activation in (nn.Tanh(), nn.Softplus(), nn.GELU(), nn.SiLU(), nn.Sigmoid(), nn.Mish(), nn.Dropout(0.5)):
        ts.jacobian(nn.Sequential(nn.Linear(2, 2).double(), activation), PROBES.points)


def spoilt():
    model = network(0)
    model[2].weight.data[3, 1] = math.nan
    return model


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.jacobian(spoilt(), PROBES.points), r"2.weight must be finite, but 2.weight\[3, 1\] is nan"),
        (
            lambda: ts.jacobian(network(0).requires_grad_(False), PROBES.points),
            "no parameter that requires a gradient",
        ),
        (lambda: ts.jacobian(torch.tanh, PROBES.points), "model must be a torch.nn.Module"),
        (lambda: ts.jacobian(network(0), [[math.inf, 0.0]]), r"points\[0, 0\] is inf"),
        (lambda: ts.jacobian(network(0), [0.0, 1.0]), r"points must be \(point, in\)"),
        (lambda: ts.orbit_velocity(network(0), PROBES.points, np.eye(2)), "generator must be skew-symmetric"),
        (lambda: ts.orbit_velocity(network(0), PROBES.points, 0.5 * A), "must have period 2π"),
        (lambda: ts.orbit_velocity(network(0), PROBES.points, np.zeros((3, 3))), r"generator must be \(2, 2\)"),
        (lambda: ts.orbit_velocity(network(0), PROBES.points, A, A), r"output_generator must be \(1, 1\)"),
        (lambda: ts.Probes(np.ones((5, 2)), np.ones(5), 4), r"whole orbits, got \(5, 2\)"),
        (lambda: ts.Probes(np.ones((4, 2)), [1, 1, 1, 2.0], 4), "the same along an orbit"),
        (lambda: ts.Probes(np.ones((4, 2)), -np.ones(4), 4), "4 positive numbers"),
        (lambda: ts.polar_probes(radius=0), "radius must be a finite number"),
        (lambda: ts.polar_probes(angles=1), "angles must be at least 2"),
        (lambda: ts.orbit_probes(np.ones((2, 2)), A, 8, [1.0]), r"weights must be one an orbit, \(2,\)"),
        (lambda: ts.group_average(np.ones(7), PROBES, A), r"values must be \(768 × out,\)"),
        (lambda: ts.group_average(np.ones(768), PROBES.points, A), "from polar_probes or orbit_probes, got Tensor"),
        (lambda: ts.lift(np.ones((4, 2)), np.ones(3), np.ones(4)), r"target must be \(4,\)"),
        (lambda: ts.lift(np.ones((4, 2)), np.ones(4), np.ones(3)), "J's 4 rows a multiple of them"),
        (lambda: ts.lift(np.ones((4, 2)), np.ones(4), np.ones(4), tolerance=-1), "tolerance must be a finite number"),
        (lambda: ts.lift(np.full((4, 2), np.nan), np.ones(4), np.ones(4)), r"J\[0, 0\] is nan"),
        (lambda: ts.residual(np.ones((4, 2)), np.ones(3), np.ones(4)), r"direction must be \(2,\)"),
        (lambda: ts.attribution(network(0), np.ones((4, 2)), np.ones(2), np.ones(4), np.ones(4)), "337 parameters"),
    ],
)
def test_wrong_calls_are_answered(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_probes_that_are_no_orbits_are_refused():
    scattered = ts.Probes(np.random.default_rng(0).normal(size=(8, 2)), np.ones(8), 4)
    with pytest.raises(ValueError, match="no orbits of this generator"):
        ts.group_average(np.ones(8), scattered, A)
    backwards = ts.orbit_probes(np.ones((2, 2)), -A, 8)
    with pytest.raises(ValueError, match="no orbits of this generator"):
        ts.defect(np.ones(16), backwards, A)
