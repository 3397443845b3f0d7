"""The shipped tables of symmetry flows: complete, what their script computes, and inside the bounds of the page."""

import json
import math

import classifiers
import numpy as np
import pandas as pd
import pytest
import symmetry_flows
import torch

import tasksym as ts

KEYS = ["task", "kind", "seed"]


@pytest.fixture(scope="module")
def paths():
    return pd.read_csv(symmetry_flows._table.FOLDER / "symmetry_flows.csv")


@pytest.fixture(scope="module")
def networks():
    return pd.read_csv(symmetry_flows._table.FOLDER / "symmetry_flows-networks.csv")


def test_every_network_has_its_four_flows_from_start_to_end(paths, networks):
    assert list(paths.columns) == symmetry_flows.COLUMNS
    flows = paths.groupby([*KEYS, "flow", "resolved"], sort=False)
    assert {key[:3] for key in flows.groups} == set(symmetry_flows.networks()) and len(flows) == 4 * 25
    assert (flows["time"].first() == 0).all()
    ends = flows["time"].last()
    for flow, time in symmetry_flows.TIMES.items():
        np.testing.assert_allclose(ends.xs(flow, level="flow"), time, rtol=1e-4)
    assert paths.drop(columns=["accuracy", "turned"]).notna().all().all()
    assert paths["accuracy"].isna().equals(paths["task"] == "none")
    assert not networks.duplicated(KEYS).any() and len(networks) == 25
    assert networks.loc[networks["kind"] == "trained"].notna().all().all()
    provenance = json.loads((symmetry_flows._table.FOLDER / "symmetry_flows.json").read_text(encoding="utf-8"))
    assert provenance["times"] == symmetry_flows.TIMES and provenance["seeds"] == list(classifiers.SEEDS)
    assert (symmetry_flows._table.FOLDER / "symmetry_flows-networks.csv").stat().st_size < 300_000


def test_flows_are_what_the_script_computes(paths):
    """One network's four flows; the page computes those of others."""
    seed = int(np.random.default_rng(5).choice(classifiers.SEEDS))
    stored = paths[(paths["task"] == "annulus") & (paths["kind"] == "trained") & (paths["seed"] == seed)]
    for flow, resolved in (("orbit", True), ("equivariance", True), ("equivariance", False)):
        fresh = symmetry_flows.measure("annulus", "trained", seed, flow, resolved)
        then = stored[(stored["flow"] == flow) & (stored["resolved"] == resolved)]
        assert abs(len(fresh) - len(then)) <= 1  # the controller may need a step more on another processor
        for column in ("error", "defect", "drift", "distance", "moved", "residual", "norm", "outside_error"):
            np.testing.assert_allclose(fresh[column].iloc[-1], then[column].iloc[-1], rtol=0.02, err_msg=column)
        np.testing.assert_allclose(fresh["accuracy"].iloc[-1], then["accuracy"].iloc[-1], atol=0.004)


def test_directions_are_what_the_script_computes(networks):
    fresh = symmetry_flows.directions(symmetry_flows.network("wedge", "trained", 1))
    stored = networks[(networks["task"] == "wedge") & (networks["kind"] == "trained") & (networks["seed"] == 1)]
    for column, value in fresh.items():
        np.testing.assert_allclose(stored[column].iloc[0], value, rtol=1e-3, atol=1e-6, err_msg=column)


def test_a_naive_direction_lowers_the_defect_as_asked():
    model = symmetry_flows.network("annulus", "trained", 0)
    J = ts.jacobian(model, symmetry_flows.PROBES.points)
    f = symmetry_flows.values(model, symmetry_flows.PROBES.points)
    delta = ts.defect(f, symmetry_flows.PROBES, ts.ROTATION)
    change = J @ symmetry_flows.naive_direction(model)
    seen = ts.defect(change, symmetry_flows.PROBES, ts.ROTATION)
    assert symmetry_flows.size(seen + delta) < 0.0201 * symmetry_flows.size(delta)
    assert symmetry_flows.size(change - seen) > symmetry_flows.size(delta)  # and P_E f moves


def test_other_lifts_and_a_whole_turn_are_what_the_script_computes(networks):
    model = symmetry_flows.network("annulus", "trained", 1)
    stored = networks[(networks["task"] == "annulus") & (networks["kind"] == "trained") & (networks["seed"] == 1)]
    for column, value in (symmetry_flows.other_lifts(model, "trained") | symmetry_flows.whole_turn(model)).items():
        np.testing.assert_allclose(stored[column].iloc[0], value, rtol=0.05, err_msg=column)


def test_the_ideal_keeps_what_it_should():
    model, probes = symmetry_flows.network("wedge", "trained", 0), symmetry_flows.PROBES
    f = symmetry_flows.values(model, probes.points)
    step = 2 * math.pi / probes.angles
    on_orbits = f.view(-1, probes.angles)
    torch.testing.assert_close(
        symmetry_flows.ideal(model, "orbit", probes, step).view_as(on_orbits), on_orbits.roll(1, dims=1)
    )
    halved = symmetry_flows.ideal(model, "equivariance", probes, math.log(2))
    torch.testing.assert_close(halved + ts.defect(f, probes, ts.ROTATION) / 2, f)
