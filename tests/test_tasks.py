"""Tasks: trials worked by hand, and scores against plain loops."""

import numpy as np
import pytest
import torch

import tasksym as ts


class Script:
    """A generator whose uniform draws are given, so that a trial can be worked by hand."""

    def __init__(self, *draws):
        self.draws = iter(draws)

    def random(self, shape):
        return np.array(next(self.draws)).reshape(shape)


def test_flip_flop_worked_by_hand(monkeypatch):
    """Two bits, five steps. Draws below 0.1 pulse, draws below 0.5 are negative; the first step always pulses."""
    monkeypatch.setattr("tasksym._checks.generator", lambda rng: rng)
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


def test_samples_depend_on_the_seed_alone():
    task = ts.FlipFlop()
    one, same, other = task.sample(8, rng=3), task.sample(8, rng=np.random.default_rng(3)), task.sample(8, rng=4)
    np.testing.assert_array_equal(one.inputs, same.inputs)
    assert (one.inputs != other.inputs).any()


def test_score_counts_right_signs():
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
    assert task.score(trials.targets, trials) == 1
    assert task.score(-trials.targets, trials) == 0
    assert task.score(torch.tensor(trials.targets), trials) == 1
    assert task.score(np.zeros_like(trials.targets), trials) == 0, "no answer is no right answer"


def test_score_ignores_masked_steps():
    task = ts.FlipFlop(bits=1, steps=4)
    sampled = task.sample(2, rng=0)
    trials = ts.Trials(sampled.inputs, sampled.targets, np.array([True, False, True, False]))
    outputs = sampled.targets.copy()
    outputs[1] *= -1
    assert task.score(outputs, trials) == 1
    outputs[0] *= -1
    assert task.score(outputs, trials) == 0.5
