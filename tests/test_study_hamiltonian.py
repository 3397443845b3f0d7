"""Leapfrog networks: a symplectic, reversible step; a complete table; and what its script computes."""

import hamiltonian as study
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import tasksym as ts


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(study._table.FOLDER / "hamiltonian.csv")


@pytest.fixture(scope="module")
def states():
    return study.starts(5, 20)


@pytest.mark.parametrize("system", ["hat", "tilted", "adaptable", "flowed"])
def test_a_step_is_symplectic_and_reversible(system, states):
    model = study.leapfrog(system, 1)
    c = torch.tensor([0.9], dtype=torch.float64) if system == "adaptable" else None

    def step(state):
        return model.rollout(state, 1, c)[1]

    M = torch.func.vmap(torch.func.jacrev(step))(states).detach()
    zero, one = torch.zeros(2, 2), torch.eye(2)
    form = torch.cat([torch.cat([zero, one], 1), torch.cat([-one, zero], 1)]).double()
    torch.testing.assert_close(M.mT @ form @ M, form.expand_as(M), rtol=0, atol=1e-13)
    back = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)  # turns time round
    even = model.T.slope(states[:, 2:]) + model.T.slope(-states[:, 2:])
    assert even.abs().max() > 1e-6  # the learned T is not even, so reversal must run the step backwards
    with torch.no_grad():
        there = model.rollout(states, 50, c)[-1]
        torch.testing.assert_close(model.rollout(there, 50, c, h=-study.H)[-1], states, rtol=0, atol=1e-11)
        truth = study.true("hat")
        again = truth.rollout(truth.rollout(states, 50)[-1] * back, 50)[-1] * back
    torch.testing.assert_close(again, states, rtol=0, atol=1e-10)


def test_slopes_are_gradients(states):
    for scalar in (study.network("adaptable", 0).V, study.TrueHat(0.3, 0.7), study.TrueKinetic()):
        x = states[:, : 3 if isinstance(scalar, study.Scalar) else 2].clone().requires_grad_()
        (slope,) = torch.autograd.grad(scalar(x).sum(), x)
        torch.testing.assert_close(scalar.slope(x), slope[:, :2], rtol=1e-12, atol=1e-13)


def test_the_true_hat_is_what_it_says_and_leapfrog_keeps_its_angular_momentum(states):
    fine = study.orbits("hat", states, 20)
    H = fine[..., 2:].square().sum(-1) / 2 + (fine[..., :2].square().sum(-1) - 1) ** 2
    assert H.max() <= 1.001 and (H - H[0]).abs().max() < 1e-3
    assert study.momentum_drift(study.true("hat")).max() < 1e-12
    assert study.momentum_drift(study.true("tilted")).max() > 0.1


def test_torques_are_orbit_velocities_and_add_up(states):
    model, h = study.leapfrog("hat", 2), study.H
    path = model.rollout(states, 30).detach()
    moved = study.angular_momentum(path[-1]) - study.angular_momentum(path[0])
    torque = torch.stack([ts.orbit_velocity(model.V, q, ts.ROTATION) for q in path[..., :2]])
    halves = path[:-1, :, 2:] - h / 2 * model.V.slope(path[:-1, :, :2]).detach()
    twist = torch.stack([ts.orbit_velocity(model.T, p, ts.ROTATION) for p in halves])
    total = h * (torque.sum(0) - (torque[0] + torque[-1]) / 2 + twist.sum(0))
    torch.testing.assert_close(total, moved, rtol=0, atol=1e-13)


def test_the_table_has_every_flow_of_every_network(table):
    assert list(table.columns) == study.COLUMNS
    flows = table[table["time"].notna() & (table["system"] != "none")]
    found = flows.groupby(["system", "seed", "part", "change"]).agg(first=("time", "min"), last=("time", "max"))
    wanted = {
        (system, seed, part, f"{kind}, {'resolved' if resolved else 'fixed'}"): study.TIME[kind]
        for system, some in study.FLOWS.items()
        for seed in study.SEEDS
        for part, kind, resolved in some
    }
    assert set(found.index) == set(wanted) and (found["first"] == 0).all()
    np.testing.assert_allclose(found["last"], [wanted[key] for key in found.index], rtol=1e-4)
    lift = ["error", "defect", "drift", "distance", "moved", "residual", "held_out", "norm", "regularisation", "dof"]
    assert flows[lift].notna().all().all()
    judged = table[table["validation"].notna()]
    assert judged[["momentum_mean", "momentum_worst", "trajectory"]].notna().all().all()
    start, end = (judged[(judged["system"] == "hat") & (judged["part"] == part)] for part in ("none", "both"))
    assert len(start) == len(study.SEEDS) and len(end) == 2 * len(study.SEEDS)
    c = judged.loc[judged["system"] == "adaptable", "c"]
    assert set(c) == {*study.TRAINED, study.BETWEEN} and c.value_counts().nunique() == 1


def test_shipped_networks_are_centred():
    assert (study._table.FOLDER / "hamiltonian.safetensors").stat().st_size < 300_000
    shipped = load_file(study._table.FOLDER / "hamiltonian.safetensors")
    assert {name.rsplit(".", 3)[0] for name in shipped} == {
        f"{system}.{seed}" for system in (*study.SYSTEMS, "flowed") for seed in study.SEEDS
    }
    for system in study.SYSTEMS:
        for part in ("T", "V"):
            where = study.probes(system, part)
            with torch.no_grad():
                values = getattr(study.leapfrog(system, 0), part)(where.points)[:, 0]
            assert abs(float(where.weights @ values)) < 1e-9


def test_a_random_network_does_what_the_table_says(table):
    seed = int(np.random.default_rng(11).choice(study.SEEDS))
    stored = table[(table["system"] == "hat") & (table["seed"] == seed) & table["validation"].notna()]
    for part, name in (("none", "hat"), ("both", "flowed")):
        row = stored[(stored["part"] == part) & (stored["change"] != "averaged")].iloc[0]
        for column, value in study.quality(study.leapfrog(name, seed), "hat").items():
            assert value == pytest.approx(row[column], rel=0.05), (part, column)


def test_a_random_flow_is_what_its_script_computes(table):
    """On another processor an adaptive flow takes other steps, so that only its ends are compared."""
    seed = int(np.random.default_rng(12).choice(study.SEEDS))
    fresh = study.flow(study.leapfrog("hat", seed), "hat", "V", "orbit").table
    rows = (table["system"] == "hat") & (table["seed"] == seed) & (table["part"] == "V")
    stored = table[rows & (table["change"] == "orbit, resolved")]
    assert fresh["defect"].iloc[0] == pytest.approx(stored["defect"].iloc[0], rel=1e-3)
    assert fresh["defect"].iloc[-1] == pytest.approx(stored["defect"].iloc[-1], rel=0.01)
    assert fresh["error"].iloc[-1] == pytest.approx(stored["error"].iloc[-1], rel=0.3)


def test_training_goes_where_the_shipped_networks_are():
    """A tenth of the training, so that nothing chaotic has time to grow: it learns, but stays short of the end."""
    error = {
        name: study.quality(model, "hat")["validation"]
        for name, model in (
            ("before", study.network("hat", 0)),
            ("early", study.train("hat", 0, iterations=120)),
            ("shipped", study.leapfrog("hat", 0)),
        )
    }
    assert 5 * error["shipped"] < error["early"] < 0.85 * error["before"]
