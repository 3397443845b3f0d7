"""FVU and normalised sensitivity against their definitions."""

import numpy as np
import pytest

import tasksym as ts


def some_trials(mask=(True, True, False, True)):
    rng = np.random.default_rng(0)
    return ts.Trials(rng.normal(size=(4, 5, 2)), rng.normal(loc=[0, 10, -3], size=(4, 5, 3)), np.array(mask))


def test_fvu_is_its_definition():
    trials, rng = some_trials(), np.random.default_rng(1)
    outputs = rng.normal(size=(2, 4, 5, 3))
    kept = [0, 1, 3]
    for network in range(2):
        squared = sum(
            (outputs[network, t, k, c] - trials.targets[t, k, c]) ** 2
            for t in kept
            for k in range(5)
            for c in range(3)
        )
        variance = sum(((trials.targets[kept, :, c] - trials.targets[kept, :, c].mean()) ** 2).sum() for c in range(3))
        assert ts.fvu(outputs, trials)[network] == pytest.approx(squared / variance, rel=1e-12)


def test_fvu_of_perfect_and_of_mean_answers():
    trials = some_trials()
    assert ts.fvu(trials.targets, trials) == 0
    mean = np.broadcast_to(trials.targets[trials.mask].mean(axis=(0, 1)), trials.targets.shape)
    assert ts.fvu(mean, trials) == pytest.approx(1)
    grand_mean = np.full_like(trials.targets, trials.targets[trials.mask].mean())
    assert ts.fvu(grand_mean, trials) > 1.5, "the mean is taken per channel"


def test_fvu_ignores_masked_steps():
    trials = some_trials()
    outputs = trials.targets.copy()
    outputs[2] += 100
    assert ts.fvu(outputs, trials) == 0
    assert ts.fvu(outputs, some_trials((True,) * 4)) > 1


def test_fvu_is_undefined_for_a_constant_channel():
    targets = np.random.default_rng(0).normal(size=(4, 5, 2))
    targets[:, :, 1] = 3.0
    trials = ts.Trials(np.zeros((4, 5, 1)), targets, np.ones(4, dtype=bool))
    with pytest.raises(ValueError, match=r"targets\[\.\.\., 1\] is constant"):
        ts.fvu(targets, trials)


def test_sensitivity_is_undefined_at_and_below_the_floor():
    values = ts.normalised_sensitivity([1.0, 1.0, 1.0, 0.0], [2.0, 1e-9, 0.0, 4.0], 1e-9)
    np.testing.assert_array_equal(values, [0.5, np.nan, np.nan, 0.0])
