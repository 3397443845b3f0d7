"""Checks for what users pass in: each says what was given, what was expected and what to do."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import torch


def count(name: str, value, minimum: int = 1) -> int:
    """`value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}")
    return int(value)


def number(name: str, value, low: float = 0.0, high: float = np.inf, *, open_low: bool = False) -> float:
    """`value` as a finite float in [low, high], or in (low, high] with `open_low`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not np.isfinite(value) or value > high or value < low or (open_low and value == low):
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if high == np.inf else ']'}"
        raise ValueError(f"{name} must be a finite number in {interval}, got {value}")
    return float(value)


def generator(rng) -> np.random.Generator:
    """`rng` itself if it is a NumPy Generator, else a new one with that seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    try:
        return np.random.default_rng(count("rng", rng, minimum=0))
    except TypeError:
        raise TypeError(f"rng must be a seed (an int) or a numpy Generator, got {rng!r}") from None


def real_array(name: str, value) -> np.ndarray:
    """`value` as a real, finite NumPy array; floating dtypes are kept, integers become float64."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real, got {array.dtype}")
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    finite(name, array)
    return array


def finite(name: str, array) -> None:
    """Raise if `array` (NumPy or torch) has a NaN or an infinity, and say where the first one is."""
    good = torch.isfinite(array) if isinstance(array, torch.Tensor) else np.isfinite(array)
    if good.all():
        return
    good = np.asarray(good.cpu() if isinstance(good, torch.Tensor) else good)
    index = tuple(int(i) for i in np.argwhere(~good)[0])
    total = int((~good).sum())
    others = f" ({total} such entries)" if total > 1 else ""
    raise ValueError(
        f"{name} must be finite, but {name}[{', '.join(map(str, index))}] is {float(array[index])}{others}"
    )


def outputs(value, trials) -> np.ndarray:
    """`value` as an array (..., time, trial, out) that fits the targets of `trials`."""
    array = real_array("outputs", value)
    if array.shape[-3:] != trials.targets.shape:
        raise ValueError(
            f"outputs must end in the axes (time, trial, out) = {trials.targets.shape}, got shape {array.shape}"
        )
    return array
