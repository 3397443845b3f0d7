"""The readout confound and the repairs, against plain twins."""

import numpy as np
import pytest
import torch

import tasksym as ts


@pytest.fixture(scope="module")
def solutions():
    return ts.reference("flip-flop").of([100])


@pytest.fixture(scope="module")
def trials(solutions):
    return solutions.recipe.evaluation_trials(64)


@pytest.fixture(scope="module")
def ablated(solutions):
    """The network without C→R."""
    sectors = ts.ordered_schur(solutions.weights.W_hh[0]).sectors()
    return solutions.weights.variants(0, sectors.ablate("CR")[None])


def fvu(networks, trials):
    return ts.fvu(networks.outputs(trials.inputs).numpy(), trials)[0]


def test_the_confound_is_its_definition():
    """On copy, where only half of the steps count."""
    copy = ts.reference("copy-dense-orthogonal").of([100])
    trials = copy.recipe.evaluation_trials(16)
    sectors = ts.ordered_schur(copy.weights.W_hh[0]).sectors(0.85)
    W_hy = copy.weights.W_hy[0].double().numpy()
    row = ts.readout_confound(copy, trials, alpha=0.85).set_index("couplings").loc["CC"]
    runs = []
    for W in (sectors.schur.W, sectors.ablate("CC")):
        h, states = np.zeros((16, 72)), []
        for x in trials.inputs:
            h = np.tanh(x @ copy.weights.W_xh[0].double().numpy().T + h @ W.T)
            states.append(h)
        runs.append(np.array(states))
    whole, moved = runs[0], runs[1] - runs[0]
    y, out = (array[trials.mask] @ W_hy.T for array in (whole, moved))
    assert row["states"] == pytest.approx(np.linalg.norm(moved) / np.linalg.norm(whole - whole.mean((0, 1))))
    assert row["outputs"] == pytest.approx(np.linalg.norm(out) / np.linalg.norm(y - y.mean((0, 1))))
    seen = moved[trials.mask] @ np.linalg.pinv(W_hy) @ W_hy
    assert row["share"] == pytest.approx((np.linalg.norm(seen) / np.linalg.norm(moved[trials.mask])) ** 2)
    assert row["chance"] == pytest.approx(8 / 72)


def test_a_random_direction_has_the_share_of_chance(solutions):
    """Averaged over directions, the decoder sees rank / hidden of a deviation."""
    chance = ts.readout_confound(solutions, solutions.recipe.evaluation_trials(4))["chance"].iloc[0]
    directions = np.random.default_rng(0).normal(size=(4000, 64))
    W_hy = solutions.weights.W_hy[0].double().numpy()
    seen = directions @ np.linalg.pinv(W_hy) @ W_hy
    assert (seen**2).sum() / (directions**2).sum() == pytest.approx(chance, abs=0.003)


def test_tolerance_moves_the_words(solutions, trials):
    words = [set(ts.readout_confound(solutions, trials, tolerance=t)["reading"]) for t in (1e-6, 10)]
    assert words == [{"seen"}, {"inert"}]


def test_the_decoder_is_refitted_by_least_squares(solutions, trials, ablated):
    states = ablated.rollout(trials.inputs)[0][0].numpy().reshape(-1, 64)
    expected = np.linalg.lstsq(states, trials.targets.reshape(-1, 3), rcond=None)[0].T
    np.testing.assert_allclose(ts.refit_decoder(ablated, trials).W_hy[0], expected, rtol=1e-6, atol=1e-8)
    assert fvu(ts.refit_decoder(ablated, trials), trials) < fvu(ablated, trials)


def test_the_decoder_of_an_emptied_state_space_stays_small(solutions, trials):
    """Half of the units never move: least squares alone would not say what their weights are."""
    W_xh, W_hh = solutions.weights.W_xh.double().clone(), solutions.weights.W_hh.double().clone()
    W_xh[:, 32:], W_hh[:, 32:] = 0, 0
    fitted = ts.refit_decoder(ts.TanhRNN(W_xh, W_hh, solutions.weights.W_hy.double()), trials)
    assert fitted.W_hy[..., 32:].abs().max() < 1e-8 and torch.isfinite(fitted.W_hy).all()


def test_the_encoder_is_refitted_downhill_and_alone(trials, ablated):
    before = fvu(ablated, trials)
    few, many = (ts.refit_encoder(ablated, trials, iterations) for iterations in (3, 30))
    assert fvu(many, trials) < fvu(few, trials) < before
    assert torch.equal(many.W_hh, ablated.W_hh) and torch.equal(many.W_hy, ablated.W_hy)


def test_repairs_has_all_kinds_and_the_whole_network(solutions, trials):
    kinds = ["none", "decoder", "norm"]  # the fourth takes seconds; the study's test refits an encoder
    table = ts.repairs(solutions, trials, kinds=kinds, progress=False)
    assert list(table.columns) == ["seed", "couplings", "repair", "fvu", "score"]
    assert list(zip(table["couplings"], table["repair"], strict=True)) == [
        (coupling, kind) for coupling in ("", *ts.COUPLINGS) for kind in kinds
    ]
    profile = ts.ablation_profile(solutions, trials).set_index("couplings")
    for row in table[table["repair"] == "none"].itertuples():
        assert row.fvu == pytest.approx(profile.loc[row.couplings, "fvu"], abs=1e-12)
        assert row.score == profile.loc[row.couplings, "score"]


def test_norm_preserving_ablation_has_the_norm_of_w(solutions, trials):
    sectors = ts.ordered_schur(solutions.weights.W_hh[0]).sectors()
    W, cut = sectors.schur.W, sectors.ablate("CC")
    scaled = solutions.weights.variants(0, (cut * np.linalg.norm(W) / np.linalg.norm(cut))[None])
    table = ts.repairs(solutions, trials, kinds=["norm"], progress=False).set_index("couplings")
    assert table.loc["CC", "fvu"] == pytest.approx(fvu(scaled, trials))
    assert table.loc["CC", "fvu"] != pytest.approx(table.loc["", "fvu"], rel=0.1)
