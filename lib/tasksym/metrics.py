"""How far outputs are from their targets, what a removal costs per unit of its mass, and a word for it."""

from __future__ import annotations

import numpy as np

from tasksym import _checks
from tasksym.trials import Trials

EFFECTS = ("absent", "harmless", "degrading", "destructive")


def fvu(outputs, trials: Trials) -> np.ndarray:
    """Fraction of variance unexplained: 0 is perfect, 1 is as good as the constant mean.

    Parameters
    ----------
    outputs : array (..., time, trial, out)
    trials : Trials

    Returns
    -------
    array (...,)
        sum of squared errors / sum of squared deviations of the targets from their mean per output channel, both
        over masked steps and all trials.

    Raises
    ------
    ValueError
        If shapes disagree, or a target channel is constant, which leaves no variance to explain.
    """
    outputs = _checks.outputs(outputs, trials).astype(np.float64)
    targets = trials.targets[trials.mask].astype(np.float64)
    deviations = targets - targets.mean(axis=(0, 1))
    for channel, variance in enumerate((deviations**2).sum(axis=(0, 1))):
        if variance == 0:
            raise ValueError(f"targets[..., {channel}] is constant over masked steps and trials: the FVU is undefined")
    errors = outputs[..., trials.mask, :, :] - targets
    return (errors**2).sum(axis=(-3, -2, -1)) / (deviations**2).sum()


def normalised_sensitivity(delta_fvu, mass, floor) -> np.ndarray:
    """Rise of the FVU per unit of removed mass, S = ΔFVU / mass (arXiv 2606.18457).

    Parameters
    ----------
    delta_fvu, mass : arrays of one shape
    floor : float or array
        Mass that rounding alone could produce; at or below it S is undefined.

    Returns
    -------
    array
        NaN where the mass does not exceed the floor.
    """
    delta_fvu, mass = np.asarray(delta_fvu, dtype=float), np.asarray(mass, dtype=float)
    defined = mass > floor
    return np.where(defined, delta_fvu / np.where(defined, mass, 1.0), np.nan)


def effect(fvu, score, whole_fvu, whole_score, there=True) -> np.ndarray:
    """First word of a verdict: what a removal does to the network.

    Parameters
    ----------
    fvu, score : arrays
        After the removal.
    whole_fvu, whole_score : arrays
        Of the whole network, broadcast against them.
    there : array of bool
        Whether the mass that was removed is more than rounding.

    Returns
    -------
    array of str
        "absent", if nothing was there; else "harmless", if the FVU is at most the larger of twice that of the whole
        network and .01 more, and the score fell by .01 at most; else "destructive", if the score fell by more than .05
        or the FVU is above .5; else "degrading".
    """
    fvu, whole_fvu = np.asarray(fvu, dtype=float), np.asarray(whole_fvu, dtype=float)
    lost = np.asarray(whole_score, dtype=float) - np.asarray(score, dtype=float)
    harmless = (fvu <= np.maximum(2 * whole_fvu, whole_fvu + 0.01)) & (lost <= 0.01)
    destructive = (lost > 0.05) | (fvu > 0.5)
    return np.select(
        [~np.asarray(there, dtype=bool), harmless, destructive], ["absent", "harmless", "destructive"], "degrading"
    )
