"""The diagnosis of anyone's network: against the tables that it is made of, and what its report may hold."""

import dataclasses

import numpy as np
import planted
import pytest
import torch
from torch import nn

import tasksym as ts

DRAWS = 60


def as_module(solutions, dtype=torch.float32, batch_first=True):
    """A trained network in plain PyTorch."""
    W_xh, W_hh, W_hy = (
        matrix[0].to(dtype) for matrix in (solutions.weights.W_xh, solutions.weights.W_hh, solutions.weights.W_hy)
    )
    rnn = nn.RNN(W_xh.shape[1], len(W_hh), batch_first=batch_first, dtype=dtype)
    readout = nn.Linear(len(W_hh), len(W_hy), dtype=dtype)
    with torch.no_grad():
        for parameter in (*rnn.parameters(), *readout.parameters()):
            parameter.zero_()
        rnn.weight_ih_l0.copy_(W_xh), rnn.weight_hh_l0.copy_(W_hh), readout.weight.copy_(W_hy)
    return rnn, readout


def signs(outputs, targets):
    return (np.sign(outputs) == np.sign(targets)).mean()


@pytest.fixture(scope="module")
def solutions():
    return ts.reference("flip-flop").of([100])


@pytest.fixture(scope="module")
def trials(solutions):
    return solutions.recipe.evaluation_trials(48)


@pytest.fixture(scope="module")
def diagnosis(solutions, trials):
    given = (trials.inputs.swapaxes(0, 1), trials.targets.swapaxes(0, 1))
    rnn, readout = as_module(solutions)
    return ts.diagnose(rnn, given, readout, score=signs, draws=DRAWS, progress=False, name="<b>mine</b> & yours")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_torch_network_gets_the_profile_of_the_same_weights(solutions, trials, dtype):
    rnn, readout = as_module(solutions, dtype, batch_first=False)
    found = ts.diagnose(rnn, trials, readout, draws=1, progress=False).profile
    expected = ts.ablation_profile(solutions, trials)
    assert list(found["couplings"]) == list(expected["couplings"])
    for column in ("rank", "gap", "mass", "fvu", "delta_fvu"):
        np.testing.assert_allclose(found[column], expected[column], atol=1e-10, err_msg=column)


def test_leak_one_and_folded_biases_change_nothing(solutions, trials):
    rnn, readout = as_module(solutions)
    torch.manual_seed(0)
    nn.init.normal_(rnn.bias_ih_l0, std=0.1), nn.init.normal_(rnn.bias_hh_l0, std=0.1), nn.init.normal_(readout.bias)
    state = {**rnn.state_dict(), **{f"fc.{key}": value for key, value in readout.state_dict().items()}}
    folded = dict(state, bias_hh_l0=state["bias_ih_l0"].double() + state["bias_hh_l0"].double())
    del folded["bias_ih_l0"]
    given = (trials.inputs.swapaxes(0, 1), trials.targets.swapaxes(0, 1))
    rest = {"batch_first": True, "draws": 1, "progress": False}
    first, *others = (
        ts.diagnose(model, given, **rest, **more).profile
        for model, more in ((state, {}), (folded, {}), (state, {"leak": 1.0}), (rnn, {"readout": readout}))
    )
    for other in others:
        np.testing.assert_allclose(other["fvu"], first["fvu"], atol=1e-10)
    assert first["fvu"][0] > 0.05, "the biases matter"


def test_a_constant_input_is_a_bias(solutions, trials):
    """Folded the other way: into a channel that is always one."""
    W_xh, W_hh, W_hy = (
        matrix[0].double().numpy()
        for matrix in (solutions.weights.W_xh, solutions.weights.W_hh, solutions.weights.W_hy)
    )
    bias = np.random.default_rng(0).normal(0, 0.1, size=64)
    kept = ts.diagnose({"W_xh": W_xh, "W_hh": W_hh, "W_hy": W_hy, "b_h": bias}, trials, draws=1, progress=False)
    inputs = np.concatenate([trials.inputs, np.ones((*trials.inputs.shape[:2], 1))], axis=2)
    folded = {"W_xh": np.column_stack([W_xh, bias]), "W_hh": W_hh, "W_hy": W_hy}
    found = ts.diagnose(folded, (inputs, trials.targets), draws=1, progress=False)
    np.testing.assert_allclose(found.profile["fvu"], kept.profile["fvu"], atol=1e-10)


def test_the_table_is_made_of_the_tables_of_the_package(diagnosis, solutions, trials):
    chance = ts.verdicts(ts.size_matched(solutions, ["equal mass"], trials=trials, draws=DRAWS, progress=False))
    np.testing.assert_allclose(diagnosis.table["delta_fvu"], chance["delta_fvu"], atol=1e-10)
    assert list(diagnosis.table["effect"]) == list(chance["effect"])
    orders = ts.order_range(solutions, range(21), trials).groupby("couplings")["delta_fvu"]
    least = diagnosis.table.set_index("couplings")["least"]
    np.testing.assert_allclose(least["CR"], orders.min()["CR"], atol=1e-10)
    reading = ts.readout_confound(solutions, trials)["reading"]
    assert list(diagnosis.table["reading"]) == list(reading)


def test_verdicts_have_two_words(diagnosis):
    assert str(diagnosis.verdicts["CR"]) == "destructive, above chance"
    assert diagnosis.verdicts["CC"].relative == "below chance"
    assert diagnosis.verdicts["RR"].effect == "harmless" and diagnosis.verdicts["RR"].p <= 0.05


def test_the_summary_says_what_can_go_and_why_not_to_trust_it(diagnosis):
    text = str(diagnosis)
    assert repr(diagnosis) == text == diagnosis.summary, "a prompt shows no arrays"
    assert "64 hidden units" in text and "What can go: RR, a mass of" in text
    assert "Caution: RR can go because there is little of it" in text
    assert any("depends on the order of blocks" in caveat for caveat in diagnosis.caveats)


@pytest.mark.parametrize(
    ("kind", "reading"), [("inert", "inert"), ("output-null", "output-null"), ("redundant", "seen")]
)
def test_planted_networks_are_diagnosed_rightly(kind, reading):
    solutions = planted.solutions(kind)
    trials, weights = solutions.recipe.evaluation_trials(64), solutions.weights
    model = {"W_xh": weights.W_xh[0], "W_hh": weights.W_hh[0], "W_hy": weights.W_hy[0]}

    def score(outputs, targets):
        return solutions.recipe.task.score(outputs, trials)

    found = ts.diagnose(model, trials, score=score, draws=199, progress=False)
    assert {name: str(verdict) for name, verdict in found.verdicts.items()} == {
        "RR": "absent", "CR": "destructive, above chance", "CC": "harmless, below chance"
    }  # fmt: skip
    assert found.table.set_index("couplings").loc["CC", "reading"] == ("seen" if kind == "redundant" else kind)
    assert found.removable == "CC"
    assert any("this readout does not look" in caveat for caveat in found.caveats) == (kind == "output-null")


def test_a_leaky_network_is_split_by_the_decay_of_its_steps():
    """Units that decay by (1 − a + aλ) a step: with alpha = .9 those of λ ≥ .9 lead, whatever the leak."""
    eigenvalues = np.array([1.0, 0.95, 0.85, 0.3, -0.2, 0.1])
    T = np.diag(eigenvalues) + 0.05 * np.triu(np.ones((6, 6)), 1)
    rng = np.random.default_rng(0)
    model = {"W_xh": rng.normal(size=(6, 2)), "W_hh": T, "W_hy": rng.normal(size=(1, 6))}
    inputs = rng.normal(size=(20, 30, 2))
    plain, leaky = (ts.diagnose(model, inputs, leak=leak, draws=1, progress=False) for leak in (1.0, 0.2))
    assert plain.sectors.rank == leaky.sectors.rank == 2
    assert leaky.sectors.alpha == pytest.approx(0.98)
    np.testing.assert_allclose(leaky.table["mass"], 0.2 * plain.table["mass"], rtol=1e-10)
    assert any("Units are leaky (a = 0.2)" in caveat for caveat in leaky.caveats)


@pytest.mark.parametrize(
    ("change", "caveat"),
    [
        ({"alpha": 0.999999}, "one sector only"),
        ({"draws": 78}, "With 78 random cuts"),
        ({"trials": slice(0, 8)}, "There are 8 trials only"),
        ({"activation": "relu"}, "Rectified units"),
        ({"noise": 2.0}, "variance unexplained"),
        ({"targets": lambda targets: 1e-3 * targets}, "no better than a constant"),
        ({"extra": True}, "clip was ignored"),
        ({}, "No score was given"),
        ({"targets": lambda targets: None}, "No targets were given"),
    ],
)
def test_what_makes_a_word_doubtful_is_said(change, caveat):
    rng = np.random.default_rng(0)
    T = np.diag([0.95, 0.5, 0.3, 0.2]) + 0.3 * np.triu(np.ones((4, 4)), 1)
    model = {"W_xh": rng.normal(size=(4, 2)), "W_hh": T, "W_hy": rng.normal(size=(1, 4))}
    inputs = rng.normal(size=(20, 80, 2))[:, change.pop("trials", slice(None))]
    network, _ = ts.read_network(model)
    targets = network.variants(0, network.W_hh).outputs(inputs)[0].numpy()
    targets = targets + change.pop("noise", 0) * rng.normal(size=targets.shape)
    if change.pop("extra", False):
        model["clip"] = 1.0
    trials = (inputs, change.pop("targets", np.asarray)(targets))
    found = ts.diagnose(model, trials, **({"draws": 40, "progress": False} | change))
    assert any(caveat in told for told in found.caveats), found.caveats


def test_what_can_go_is_called_little_only_if_other_cuts_of_its_mass_can_go_too(diagnosis):
    """A large coupling that can go is not little of it, however few draws there are to tell it from chance."""
    solutions = planted.solutions("redundant")
    weights = solutions.weights
    model = {"W_xh": weights.W_xh[0], "W_hh": weights.W_hh[0], "W_hy": weights.W_hy[0]}
    found = ts.diagnose(model, solutions.recipe.evaluation_trials(64), draws=9, progress=False)
    assert str(found.verdicts["CC"]) == "harmless, as chance"
    (row,) = found.table[found.table["couplings"] == "CC"].itertuples()
    assert row.harmless < 0.5
    (told,) = [caveat for caveat in found.caveats if caveat.startswith("CC can go")]
    assert "is not sure (p = " in told and "little" not in told
    shares = diagnosis.table.set_index("couplings")["harmless"]
    assert shares["RR"] > 0.9 and shares["CC"] < 0.1


def test_draws_that_can_tell_one_coupling_from_chance_need_no_caution(diagnosis):
    """With p = 2 / (1 + draws) for one of three couplings, 119 draws are the least."""
    weights, recipe = planted.solutions("redundant").weights, planted.solutions("redundant").recipe
    model = {"W_xh": weights.W_xh[0], "W_hh": weights.W_hh[0], "W_hy": weights.W_hy[0]}
    found = ts.diagnose(model, recipe.evaluation_trials(64), draws=79, progress=False)  # RR is absent
    assert found.table["p"].count() == 2 and not any("random cuts a coupling" in caveat for caveat in found.caveats)
    assert any("random cuts a coupling" in caveat for caveat in diagnosis.caveats)


def test_a_removal_that_helps_is_said_to(diagnosis):
    table = diagnosis.table.assign(delta_fvu=[-0.0125, 0.0125, 0.0125])
    _, first, second, *_ = dataclasses.replace(diagnosis, table=table).sentences
    assert "the FVU is lower by 0.0125" in first and "the FVU is higher by 0.0125" in second


def test_a_split_in_doubt_is_told_and_not_warned_about(recwarn):
    W = np.diag([0.9001, 0.8999, 0.1])
    model = {"W_xh": np.ones((3, 1)), "W_hh": W + np.triu(np.ones((3, 3)), 1), "W_hy": np.ones((1, 3))}
    found = ts.diagnose(model, np.random.default_rng(0).normal(size=(9, 70, 1)), draws=1, progress=False)
    assert any("the split itself is in doubt" in caveat for caveat in found.caveats)
    assert not recwarn.list


def test_the_report_shows_html_in_a_name_as_text(diagnosis, tmp_path):
    path = tmp_path / "report.html"
    diagnosis.report(path)
    page = path.read_text(encoding="utf-8")
    assert "<b>mine</b>" not in page and page.count("&lt;b&gt;mine&lt;/b&gt; &amp; yours") == 2
    assert page.startswith("<!doctype html>") and "destructive, above chance" in page
    assert 'src="data:image/png;base64,' in page and "http" not in page.split("base64,")[0], "nothing is loaded"
    assert list(tmp_path.iterdir()) == [path]


def test_html_in_a_key_is_text_too():
    model = {
        "W_xh": np.ones((2, 1)),
        "W_hh": np.array([[0.95, 0.1], [0, 0.1]]),
        "W_hy": np.ones((1, 2)),
        "<script>": 1,
    }
    found = ts.diagnose(model, np.random.default_rng(0).normal(size=(9, 4, 1)), draws=1, progress=False)
    assert "<script>" not in found.html() and "&lt;script&gt; was ignored" in found.html()


def test_a_notebook_shows_a_part_of_a_page(diagnosis):
    part = diagnosis._repr_html_()
    assert "<body" not in part and "<table>" in part and "<img" in part
    assert "<h1" not in part and "<h2" not in part, "its headings are no part of a page's outline"


def test_the_figure_has_a_curve_and_a_bar_for_each_coupling(diagnosis):
    ax = diagnosis.figure()
    assert len(ax.collections) == 3
    for row, bar in zip(diagnosis.table.itertuples(), ax.collections, strict=True):
        np.testing.assert_allclose(bar.get_segments()[0], [(row.mass, row.low), (row.mass, row.high)])


def test_a_failed_report_leaves_the_old_one(diagnosis, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        diagnosis.report(path)
    assert path.read_text() == "old"
