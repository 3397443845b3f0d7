"""How sure a statement about a family of networks is: the networks are the replicates, never trials or entries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.stats
from scipy.spatial.distance import pdist, squareform

from tasksym import _checks

BATCH = 1000  # resamples that a statistic is given at a time, so that memory is bounded
RESAMPLES = 10_000


def bootstrap_interval(
    values,
    statistic: Callable[[np.ndarray], np.ndarray],
    groups=None,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng=0,
) -> tuple[float, float]:
    """Percentile interval of a statistic over networks, each drawn again with replacement.

    Parameters
    ----------
    values : array (network, ...)
        What is known of each network, or its number, ``numpy.arange(networks)``, for a statistic that looks it up.
    statistic : callable
        From drawn values (resample, network, ...) to (resample,), such as ``lambda x: numpy.median(x, axis=1)``.
    groups : array (network,), optional
        Labels. A network is replaced by one of its own group, so that `groups` labels the drawn values, too. One
        group if absent.
    level : float
        Share of resamples inside the interval.
    resamples : int
    rng : int or numpy Generator

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, a group has fewer than two networks, or a setting is out of range.

    References
    ----------
    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    values = _of_networks(values)
    if values.ndim == 0:
        raise ValueError(f"values must have an axis that counts networks, got shape {values.shape}")
    _, member = _members(np.zeros(len(values)) if groups is None else groups, len(values), least=1)
    level = _checks.number("level", level, 0, 1, open_low=True)
    drawn_from = [np.flatnonzero(column) for column in member.T]
    place = np.argsort(np.concatenate(drawn_from))  # from the order of the groups back to that of the networks

    def of_drawn(*networks, axis):
        return _of_each(statistic, values[np.concatenate(networks, axis=axis)[..., place]], values.ndim)

    interval = scipy.stats.bootstrap(
        drawn_from,
        of_drawn,
        n_resamples=_checks.count("resamples", resamples),
        batch=BATCH,
        vectorized=True,
        confidence_level=level,
        method="percentile",
        rng=_checks.generator(rng),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def permutation_test(
    values, statistic: Callable[[np.ndarray], np.ndarray], *, resamples: int = RESAMPLES, rng=0
) -> float:
    """How often networks in random order give a statistic at least as large as in their own.

    Parameters
    ----------
    values : array (network, ...)
        What is known of each network, or its number, as for `bootstrap_interval`.
    statistic : callable
        From values in some order (resample, network, ...) to (resample,). It knows what each place stands for, such
        as which group, and is large if the places matter.
    resamples : int
        Random orders. If there are no more orders than that, each is taken once and p is exact.
    rng : int or numpy Generator

    Returns
    -------
    float
        p = (1 + orders at least as large) / (1 + resamples).

    Raises
    ------
    ValueError, TypeError
        If there are fewer than two networks, or a setting is out of range.

    References
    ----------
    Phipson and Smyth, Permutation P-values Should Never Be Zero, 2010, for the two ones.
    """
    values = _of_networks(values)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"values must have at least two networks to exchange, got shape {values.shape}")

    def of_order(networks, axis):
        return _of_each(statistic, values[networks], values.ndim)

    result = scipy.stats.permutation_test(
        (np.arange(len(values)),),
        of_order,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=_checks.count("resamples", resamples),
        batch=BATCH,
        alternative="greater",
        rng=_checks.generator(rng),
    )
    return float(result.pvalue)


def separation_test(profiles, groups, *, resamples: int = RESAMPLES, rng=0) -> tuple[float, float]:
    """Are networks of one group more alike than networks of different groups?

    Parameters
    ----------
    profiles : array (network, feature)
    groups : array (network,)
        Labels, of at least two groups.
    resamples, rng
        As for `permutation_test`.

    Returns
    -------
    separation : float
        Mean Euclidean distance between networks of different groups minus that inside groups; every pair counts once.
    p : float
        That of a permutation test whose null is that labels could be exchanged.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, there is one group only, a group has fewer than two networks, or a setting is out of range.
    """
    profiles, _, member = _grouped(profiles, groups)
    distances = squareform(pdist(profiles))
    i, j = np.triu_indices(len(profiles), k=1)
    inside = (member[i] & member[j]).any(axis=1)
    total, pairs = distances[i, j].sum(), np.array([inside.sum(), (~inside).sum()])

    def separation(networks):
        within = distances[networks[:, i[inside]], networks[:, j[inside]]].sum(axis=1)
        return (total - within) / pairs[1] - within / pairs[0]

    networks = np.arange(len(profiles))
    p = permutation_test(networks, separation, resamples=resamples, rng=rng)
    return float(separation(networks[None])[0]), p


def between_share(profiles, groups) -> np.ndarray:
    """Share of the variance of profiles that lies between groups: η², summed over features.

    Parameters
    ----------
    profiles : array (..., network, feature)
    groups : array (network,)
        Labels, of at least two groups.

    Returns
    -------
    array (...,) in [0, 1]
        1 − squared deviations from the groups' means / squared deviations from the mean of all. It is above zero even
        if labels mean nothing.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, there is one group only, or a group has fewer than two networks.
    """
    profiles, labels, member = _grouped(profiles, groups)
    means = np.einsum("...nf,ng->...gf", profiles, member / member.sum(axis=0))
    inside = ((profiles - means[..., labels, :]) ** 2).sum(axis=(-2, -1))
    total = ((profiles - profiles.mean(axis=-2, keepdims=True)) ** 2).sum(axis=(-2, -1))
    return 1 - inside / total


def centroid_accuracy(profiles, groups, drawn=None) -> np.ndarray:
    """How well a profile tells its group: nearest centroid, each network judged by centroids made without it.

    Parameters
    ----------
    profiles : array (network, feature)
    groups : array (network,)
        Labels, of at least two groups.
    drawn : array of int (..., network), optional
        Numbers of the networks to use instead, with repetition, for a bootstrap. No copy of a network has a part in
        the centroid that it is judged by.

    Returns
    -------
    array (...,) in [0, 1]
        Share of networks that are nearer to their own group's centroid than to any other; a tie is a miss.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, there is one group only, or a group has fewer than two networks.
    """
    profiles, labels, member = _grouped(profiles, groups)
    n = len(profiles)
    drawn = np.arange(n) if drawn is None else np.asarray(drawn).astype(int)
    if outside := set(drawn[(drawn < 0) | (drawn >= n)].tolist()):
        raise ValueError(f"drawn must hold numbers of the {n} networks, got {min(outside)}")
    copies = (drawn[..., None, :] == np.arange(n)[:, None]).sum(axis=-1)  # (..., network)
    sums = np.einsum("...n,ng,nf->...gf", copies, member.astype(float), profiles)
    sizes = copies @ member.astype(int)
    to_others = _distance(profiles, sums / np.maximum(sizes, 1)[..., None])
    to_others[..., np.arange(n), labels] = np.inf
    left = sizes[..., labels] - copies
    own = (sums[..., labels, :] - copies[..., None] * profiles) / np.maximum(left, 1)[..., None]
    to_own = np.where(left > 0, np.linalg.norm(profiles - own, axis=-1), np.inf)
    hit = to_own < to_others.min(axis=-1)
    return (copies * hit).sum(axis=-1) / drawn.shape[-1]


def _of_networks(values) -> np.ndarray:
    checked = _checks.real_array("values", values)
    given = np.asarray(values)
    return given if given.dtype.kind in "iu" else checked  # numbers of networks stay usable as indices


def _of_each(statistic, drawn: np.ndarray, ndim: int) -> np.ndarray:
    """The statistic of every resample; SciPy asks for that of the networks themselves, too, which has no such axis."""
    if drawn.ndim > ndim:
        return np.asarray(statistic(drawn), dtype=float)
    return np.asarray(statistic(drawn[None]), dtype=float)[0]


def _distance(profiles: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    return np.linalg.norm(profiles[:, None] - centroids[..., None, :, :], axis=-1)


def _grouped(profiles, groups) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    profiles = _checks.real_array("profiles", profiles)
    if profiles.ndim < 2:
        raise ValueError(f"profiles must end in the axes (network, feature), got shape {profiles.shape}")
    return profiles, *_members(groups, profiles.shape[-2], least=2)


def _members(groups, networks: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Each network's group as a number (network,), and who is in which, booleans (network, group)."""
    groups = np.asarray(groups)
    if groups.shape != (networks,):
        raise ValueError(f"groups must have one label a network, shape ({networks},); got shape {groups.shape}")
    names, labels, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < least:
        raise ValueError(f"groups must name at least {least} groups, got {len(names)}")
    if sizes.min() < 2:
        name = names[sizes.argmin()].item()
        raise ValueError(f"every group must have at least two networks, but {name!r} has {sizes.min()}")
    return labels, labels[:, None] == np.arange(len(names))
