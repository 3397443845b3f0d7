"""Tasks: trials worked by hand, and scores against plain loops."""

import numpy as np
import pytest
import torch

import tasksym as ts

TASKS = {
    "copy": ts.Copy(),
    "flip-flop": ts.FlipFlop(),
    "sine": ts.SineGeneration(),
    "context": ts.ContextIntegration(),
}


class Script:
    """A generator whose draws are given, so that a trial can be worked by hand."""

    def __init__(self, *draws):
        self.draws = iter(draws)

    def random(self, size):
        return np.array(next(self.draws)).reshape(size)

    def standard_normal(self, size):
        return self.random(size)

    def uniform(self, low, high, size):
        return self.random(size)

    def integers(self, high, size):
        return self.random(size)


@pytest.fixture
def scripted(monkeypatch):
    """Let a `Script` pass where a seed is expected."""
    monkeypatch.setattr("tasksym._checks.generator", lambda rng: rng)


# --- What all tasks have in common


@pytest.mark.parametrize("name", TASKS)
def test_samples_depend_on_the_seed_alone(name):
    task = TASKS[name]
    one, same, other = task.sample(8, rng=3), task.sample(8, rng=np.random.default_rng(3)), task.sample(8, rng=4)
    np.testing.assert_array_equal(one.inputs, same.inputs)
    np.testing.assert_array_equal(one.targets, same.targets)
    assert (one.inputs != other.inputs).any() and (one.targets != other.targets).any()


@pytest.mark.parametrize("name", TASKS)
def test_trials_have_the_channels_and_the_precision_that_training_expects(name):
    task = TASKS[name]
    trials = task.sample(8, rng=0)
    assert trials.inputs.shape[1:] == (8, task.inputs) and trials.targets.shape[1:] == (8, task.outputs)
    assert trials.inputs.dtype == trials.targets.dtype == np.float32


@pytest.mark.parametrize("name", TASKS)
def test_the_right_answer_scores_one_and_none_scores_zero(name):
    task = TASKS[name]
    trials = task.sample(64, rng=0)
    assert task.score(trials.targets, trials) == 1
    assert task.score(torch.tensor(trials.targets), trials) == 1
    assert task.score(np.zeros_like(trials.targets), trials) == 0, "no answer is no right answer"
    several = task.score(np.stack([trials.targets, -trials.targets, trials.targets * 0.9]), trials)
    assert several.shape == (3,) and several[0] == several[2] == 1


@pytest.mark.parametrize("name", TASKS)
def test_an_untrained_network_scores_little(name):
    recipe = next(recipe for recipe in ts.RECIPES.values() if recipe.task == TASKS[name])
    trials = recipe.evaluation_trials()
    outputs = ts.starting_networks(recipe, range(4)).outputs(trials.inputs)
    assert (recipe.task.score(outputs, trials) < {"copy": 0.2, "sine": 0.2}.get(name, 0.75)).all()


# --- Copy


def test_copy_worked_by_hand(scripted):
    """Three symbols, sequences of two: trial 0 sees 2, 0 and trial 1 sees 1, 1."""
    trials = ts.Copy(symbols=3, length=2).sample(2, rng=Script([[2, 1], [0, 1]]))
    np.testing.assert_array_equal(trials.inputs[:, 0], [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(trials.inputs[:, 1], [[0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(trials.targets[:, 0], [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(trials.targets[:, 1], [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(trials.mask, [False, False, True, True])


def test_copy_draws_every_symbol_as_often():
    trials = ts.Copy().sample(4000, rng=0)
    np.testing.assert_allclose(trials.inputs[:9].mean(axis=(0, 1)), 1 / 8, atol=0.006)


def test_copy_score_counts_symbols_whose_output_stands_above_all_others(scripted):
    task = ts.Copy(symbols=3, length=2)
    trials = task.sample(2, rng=Script([[2, 1], [0, 1]]))
    outputs = np.full((4, 2, 3), -5.0)
    outputs[2, 0] = [0.1, -0.3, 0.2]  # right: 2
    outputs[3, 0] = [0.4, 0.4, 0.0]  # a tie is not right: 0
    outputs[2, 1] = [-3.0, -1.0, -2.0]  # right: 1
    outputs[3, 1] = [0.9, 0.8, 0.0]  # wrong: 1
    assert task.score(outputs, trials) == 0.5


# --- Flip-flop


def test_flip_flop_worked_by_hand(scripted):
    """Two bits, five steps. Draws below 0.1 pulse, draws below 0.5 are negative; the first step always pulses."""
    pulses = [[0.9, 0.9], [0.05, 0.9], [0.9, 0.9], [0.9, 0.02], [0.01, 0.9]]
    signs = [[0.2, 0.7], [0.8, 0.1], [0.1, 0.1], [0.1, 0.3], [0.4, 0.9]]
    trials = ts.FlipFlop(bits=2, steps=5, pulse_probability=0.1).sample(1, rng=Script(pulses, signs))
    np.testing.assert_array_equal(trials.inputs[:, 0], [[-1, 1], [1, 0], [0, 0], [0, -1], [-1, 0]])
    np.testing.assert_array_equal(trials.targets[:, 0], [[-1, 1], [1, 1], [1, 1], [1, -1], [-1, -1]])
    assert trials.mask.all()


def test_flip_flop_holds_the_last_pulse():
    trials = ts.FlipFlop().sample(20, rng=0)
    for trial in range(20):
        for bit in range(3):
            held = None
            for step in range(60):
                if trials.inputs[step, trial, bit] != 0:
                    held = trials.inputs[step, trial, bit]
                assert trials.targets[step, trial, bit] == held


def test_flip_flop_pulses_as_often_as_it_says():
    trials = ts.FlipFlop(pulse_probability=0.1).sample(2000, rng=1)
    assert np.abs(trials.inputs[0]).min() == 1
    assert np.abs(trials.inputs[1:]).mean() == pytest.approx(0.1, abs=0.002)
    assert trials.inputs.mean() == pytest.approx(0, abs=0.005)


def test_flip_flop_score_counts_right_signs():
    task = ts.FlipFlop(bits=2, steps=4)
    trials = task.sample(3, rng=0)
    outputs = np.random.default_rng(0).normal(size=(5, 4, 3, 2))
    expected = [
        sum(
            np.sign(outputs[n, t, k, b]) == trials.targets[t, k, b]
            for t in range(4)
            for k in range(3)
            for b in range(2)
        )
        / 24
        for n in range(5)
    ]
    np.testing.assert_allclose(task.score(outputs, trials), expected)
    assert task.score(-trials.targets, trials) == 0


def test_flip_flop_score_ignores_masked_steps():
    task = ts.FlipFlop(bits=1, steps=4)
    sampled = task.sample(2, rng=0)
    trials = ts.Trials(sampled.inputs, sampled.targets, np.array([True, False, True, False]))
    outputs = sampled.targets.copy()
    outputs[1] *= -1
    assert task.score(outputs, trials) == 1
    outputs[0] *= -1
    assert task.score(outputs, trials) == 0.5


# --- Sine generation


def test_sine_worked_by_hand(scripted):
    """Frequencies 1/8, 1/4 and 3/16 cycles a step: the ends and the middle of the band."""
    trials = ts.SineGeneration(steps=4, low=1 / 8, high=1 / 4, amplitude=2.0).sample(3, rng=Script([-1, 1, 0]))
    for step in range(4):
        np.testing.assert_array_equal(trials.inputs[step], [[-1, 1], [1, 1], [0, 1]])
    half = np.sqrt(2)
    np.testing.assert_allclose(trials.targets[:, 0, 0], [half, 2, half, 0], atol=1e-6)
    np.testing.assert_allclose(trials.targets[:, 1, 0], [2, 0, -2, 0], atol=1e-6)
    np.testing.assert_allclose(trials.targets[:, 2, 0], 2 * np.sin(2 * np.pi * 3 / 16 * np.arange(1, 5)), atol=1e-6)
    assert trials.mask.all()


def test_sine_frequencies_fill_the_band():
    trials = ts.SineGeneration().sample(4000, rng=0)
    place = trials.inputs[0, :, 0]
    assert place.min() == pytest.approx(-1, abs=0.01) and place.max() == pytest.approx(1, abs=0.01)
    assert place.mean() == pytest.approx(0, abs=0.05) and place.var() == pytest.approx(1 / 3, abs=0.02)


def waves(frequency, phase=0.0, amplitude=1.0):
    time = np.arange(1, 101)[:, None]
    return amplitude * np.sin(2 * np.pi * frequency * time + phase)[:, :, None]


def test_sine_score_compares_frequencies_and_nothing_else():
    """Phase, amplitude, offset and decay do not count; four percent off is right, six percent off is not."""
    task, frequency = ts.SineGeneration(), np.linspace(0.04, 0.12, 81)
    trials = ts.Trials(np.zeros((100, 81, 2)), waves(frequency), np.ones(100, bool))
    decay = np.exp(-np.arange(100) / 60)[:, None, None]
    for same in (waves(frequency, phase=1.0), 0.1 * waves(frequency), 3 + waves(frequency), decay * waves(frequency)):
        assert task.score(same, trials) == 1
    for factor, score in ((0.96, 1), (1.04, 1), (0.94, 0), (1.06, 0)):
        assert task.score(waves(factor * frequency), trials) == pytest.approx(score, abs=0.15)
    noise = np.random.default_rng(0).normal(size=(100, 81, 1))
    assert task.score(noise, trials) < 0.1
    assert task.score(np.ones((100, 81, 1)), trials) == 0, "a constant has no frequency"
    mixed = np.where(np.arange(81)[:, None] < 20, waves(frequency), waves(1.5 * frequency))
    assert task.score(mixed, trials) == pytest.approx(20 / 81)


def test_sine_score_needs_steps_without_gaps():
    task = ts.SineGeneration()
    sampled = task.sample(4, rng=0)
    late = ts.Trials(sampled.inputs, sampled.targets, np.arange(100) >= 20)
    outputs = sampled.targets.copy()
    outputs[:20] = 0
    assert task.score(outputs, late) == 1
    gaps = ts.Trials(sampled.inputs, sampled.targets, np.arange(100) % 2 == 0)
    with pytest.raises(ValueError, match="must follow one another"):
        task.score(outputs, gaps)


# --- Context-dependent integration


def test_context_worked_by_hand(scripted):
    """Two trials of four steps. Means, then noise (scaled by 0.1), then contexts: 1 names the second stream."""
    means = [[0.1, -0.2], [0.0, 0.2]]
    noise = [[[1, 0], [0, 1]], [[0, 1], [0, -1]], [[-1, 0], [2, 0]], [[0, 0], [0, 0]]]
    trials = ts.ContextIntegration(steps=4, noise=0.1).sample(2, rng=Script(means, noise, [1, 0]))
    np.testing.assert_allclose(
        trials.inputs[:, 0],
        [[0.2, -0.2, 0, 1], [0.1, -0.1, 0, 1], [0.0, -0.2, 0, 1], [0.1, -0.2, 0, 1]],
        atol=1e-7,
    )
    np.testing.assert_allclose(
        trials.inputs[:, 1], [[0, 0.3, 1, 0], [0, 0.1, 1, 0], [0.2, 0.2, 1, 0], [0, 0.2, 1, 0]], atol=1e-7
    )
    np.testing.assert_allclose(trials.targets[:, 0, 0], np.array([-0.2, -0.3, -0.5, -0.7]) / 2, atol=1e-7)
    np.testing.assert_allclose(trials.targets[:, 1, 0], np.array([0, 0, 0.2, 0.2]) / 2, atol=1e-7)
    assert trials.mask.all()


def test_context_streams_have_the_means_and_the_noise_that_it_says():
    trials = ts.ContextIntegration().sample(4000, rng=0)
    streams, context = trials.inputs[..., :2], trials.inputs[..., 2:]
    assert streams.std(axis=0).mean() == pytest.approx(0.1, abs=0.002)
    assert streams.mean(axis=0).std() == pytest.approx(np.sqrt(0.2**2 / 3 + 0.1**2 / 60), abs=0.002)
    assert context[0, :, 0].mean() == pytest.approx(0.5, abs=0.02)
    assert (context == context[0]).all() and (context.sum(axis=-1) == 1).all()


def test_context_score_counts_final_signs():
    task = ts.ContextIntegration(steps=3)
    targets = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [0.5, -0.5, 0.2, -0.1]])[:, :, None]
    trials = ts.Trials(np.zeros((3, 4, 4)), targets, np.ones(3, bool))
    outputs = -targets
    outputs[2, :, 0] = [2.0, -0.1, -0.2, 0.0]
    assert task.score(outputs, trials) == 0.5
    earlier = ts.Trials(trials.inputs, targets, np.array([True, True, False]))
    assert task.score(outputs, earlier) == 0, "the last step that counts, not the last"
