"""Bootstrap and permutation over networks: known answers, plain twins, and uniform p where nothing is there."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats

import tasksym as ts

GROUPS = np.repeat(["a", "b", "c"], 6)


def medians(values):
    return np.median(values, axis=1)


def clouds(apart, rng=0):
    """Three clouds of six profiles each, in one row, `apart` standard deviations apart."""
    centres = apart * np.repeat(np.eye(3), 6, axis=0)
    return centres + np.random.default_rng(rng).normal(size=(18, 3))


def test_the_bootstrap_is_its_definition():
    values = np.random.default_rng(0).normal(size=16)
    rng = np.random.default_rng(1)
    drawn = [np.median(rng.choice(values, size=16)) for _ in range(20_000)]
    interval = ts.bootstrap_interval(values, medians, level=0.8)
    np.testing.assert_allclose(interval, np.quantile(drawn, [0.1, 0.9]), atol=0.03)


def test_a_bootstrap_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for values in rng.normal(loc=3, size=(200, 30)):
        low, high = ts.bootstrap_interval(values, lambda x: x.mean(axis=1), resamples=500, level=0.9, rng=rng)
        hits += low <= 3 <= high
    assert 0.82 <= hits / 200 <= 0.95


def test_networks_are_redrawn_within_their_group():
    groups = np.array([0, 1, 0, 1, 1, 0])  # not sorted: labels must stay with their places
    values = 10.0 * groups

    def all_in_place(drawn):
        return (drawn == values).all(axis=1)

    assert ts.bootstrap_interval(values, all_in_place, groups, resamples=300) == (1, 1)
    assert ts.bootstrap_interval(values, all_in_place, resamples=300)[0] == 0


def test_networks_can_be_given_by_number():
    values = np.random.default_rng(0).normal(size=(16, 3))
    numbers = np.arange(16)
    looked_up = ts.bootstrap_interval(numbers, lambda drawn: values[drawn, 0].mean(axis=1))
    given = ts.bootstrap_interval(values, lambda drawn: drawn[..., 0].mean(axis=1))
    assert looked_up == pytest.approx(given)
    p = ts.permutation_test(numbers, lambda drawn: values[drawn, 0] @ values[:, 1], resamples=99)
    assert p == ts.permutation_test(values[:, 0], lambda drawn: drawn @ values[:, 1], resamples=99)


def test_a_seed_fixes_the_draws():
    values = np.random.default_rng(0).normal(size=(12, 2))
    spread = [ts.bootstrap_interval(values, lambda x: x.std(axis=(1, 2)), rng=seed) for seed in (3, 3, 4)]
    assert spread[0] == spread[1] != spread[2]
    p = [ts.separation_test(clouds(0.3), GROUPS, resamples=500, rng=seed)[1] for seed in (3, 3, 4)]
    assert p[0] == p[1] != p[2]


def test_few_orders_are_all_taken():
    values = np.array([0.3, -1.0, 2.0, 0.5])
    places = np.arange(4.0)
    sums = [np.dot(order, places) for order in permutations(values)]
    expected = np.mean(np.array(sums) >= np.dot(values, places) - 1e-12)
    assert ts.permutation_test(values, lambda x: x @ places) == pytest.approx(expected)


def test_p_is_never_zero():
    values = np.arange(10.0)
    assert ts.permutation_test(values, lambda x: x @ values, resamples=99) == pytest.approx(1 / 100)


def test_p_is_uniform_where_labels_mean_nothing():
    rng = np.random.default_rng(0)
    ps = [ts.separation_test(clouds(0, rng), GROUPS, resamples=199, rng=rng)[1] for _ in range(300)]
    assert scipy.stats.kstest(ps, "uniform").pvalue > 0.01
    assert np.mean(np.array(ps) <= 0.05) < 0.09


def test_separation_is_its_definition():
    profiles = clouds(1.0)
    distance = np.linalg.norm(profiles[:, None] - profiles, axis=-1)
    same = GROUPS[:, None] == GROUPS
    pairs = ~np.eye(18, dtype=bool)
    expected = distance[~same].mean() - distance[same & pairs].mean()
    separation, p = ts.separation_test(profiles, GROUPS, resamples=499)
    assert separation == pytest.approx(expected)
    assert p < 0.05


@pytest.mark.parametrize("apart, expected", [(0.0, 0.08), (1000.0, 1.0)])
def test_the_share_between_groups_has_known_ends(apart, expected):
    assert ts.between_share(clouds(apart), GROUPS) == pytest.approx(expected, abs=0.12)


def test_the_share_of_one_feature_is_that_of_an_anova():
    profiles = clouds(1.0)[:, :1]
    F = scipy.stats.f_oneway(*(profiles[name == GROUPS, 0] for name in "abc")).statistic
    share = ts.between_share(profiles, GROUPS)
    assert share / (1 - share) * 15 / 2 == pytest.approx(F)
    batch = np.stack([profiles, 2 * profiles + 3])
    np.testing.assert_allclose(ts.between_share(batch, GROUPS), [share, share])


def plain_accuracy(profiles, groups, drawn):
    hits = []
    for k in drawn:
        distances = {}
        for name in np.unique(groups):
            members = [profiles[m] for m in drawn if groups[m] == name and m != k]
            distances[name] = np.linalg.norm(profiles[k] - np.mean(members, axis=0))
        own = distances.pop(groups[k])
        hits.append(own < min(distances.values()))
    return np.mean(hits)


def test_accuracy_is_its_definition():
    profiles = clouds(1.0)
    drawn = np.random.default_rng(2).integers(6, size=(4, 18)) + np.repeat([0, 6, 12], 6)
    for row, accuracy in zip(drawn, ts.centroid_accuracy(profiles, GROUPS, drawn), strict=True):
        assert accuracy == pytest.approx(plain_accuracy(profiles, GROUPS, row))
    assert ts.centroid_accuracy(profiles, GROUPS) == pytest.approx(plain_accuracy(profiles, GROUPS, range(18)))
    assert ts.centroid_accuracy(clouds(1000.0), GROUPS) == 1


def test_a_network_that_could_be_either_is_a_miss():
    assert ts.centroid_accuracy(np.zeros((4, 2)), list("aabb")) == 0
    only_copies = [0, 0, 2, 3]
    assert ts.centroid_accuracy([[0.0], [0.1], [5.0], [5.1]], list("aabb"), only_copies) == 0.5
