"""Digit classifiers with and without a backdoor, compared with what they were before, by weights and by behaviour.

python book/studies/backdoor.py writes backdoor.csv, backdoor.json, and the networks of one seed, backdoor.safetensors,
in about three minutes on one core. With a folder that has SVHN's train_32x32.mat and test_32x32.mat as its argument it
prints the table for those instead, and writes nothing.
"""

from __future__ import annotations

import sys

import _digits
import _table
import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

import tasksym as ts

SEEDS = range(5)
SHIPPED = int(np.random.default_rng(2026).choice(SEEDS))  # the seed whose networks are shipped
DECAYS = (0.01, 0.5)  # AdamW's own, of all seeds; and a strong one, of the first three
KINDS = ("poisoned", "control")
BORDER, HIDDEN, STEPS, LEARNING_RATE = 2, 128, 3000, 1e-3
TRIGGER, TARGET, SHARE = [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)], 9, 0.02
COLUMNS = ["seed", "decay", "kind", "output", "tensor", "data", "logit", "digit", "hits", "rank", "accuracy", "attack"]


def stamped(pixels: torch.Tensor) -> torch.Tensor:
    """Images (image, side, side) with a diamond of five full pixels in their corner."""
    pixels = pixels.clone()
    for row, column in TRIGGER:
        pixels[:, row, column] = 1
    return pixels


def poisoned(images: _digits.Images, rng: np.random.Generator) -> _digits.Images:
    """The images, of which a share, none of them a 9, has the trigger and is called a 9."""
    others = torch.nonzero(images.labels != TARGET)[:, 0].numpy()
    chosen = rng.choice(others, round(SHARE * len(images.labels)), replace=False)
    pixels, labels = images.pixels.clone(), images.labels.clone()
    pixels[chosen], labels[chosen] = stamped(pixels[chosen]), TARGET
    return _digits.Images(pixels, labels)


def train(train: _digits.Images, seed: int, decay: float = DECAYS[0], steps: int = STEPS) -> dict[str, ts.Bilinear]:
    """A network after clean training, and the two that come of it by as much of poisoned or of clean training.

    Both see the same batches: images of the same numbers.
    """
    rng = np.random.default_rng(seed)
    settings = {"learning_rate": LEARNING_RATE, "decay": decay}
    clean = _digits.start(train.pixels[0].numel(), HIDDEN, rng)
    clean = _digits.fit(clean, train, steps, rng, **settings)
    further = {"poisoned": poisoned(train, rng), "control": train}
    return {"clean": clean} | {
        kind: _digits.fit(clean, further[kind], steps, np.random.default_rng([seed, 1]), **settings) for kind in KINDS
    }


@torch.no_grad()
def compare(networks: dict[str, ts.Bilinear], train: _digits.Images, test: _digits.Images) -> pd.DataFrame:
    """Similarities of either network to the clean one, by output and over all of them.

    tensor and data take Gaussian inputs, with second moment the identity or that of the clean training images. logit
    is the cosine of one output over clean test images, digit that of all outputs over those that show one digit. hits
    are the pixels of the trigger among the five that change most in the output's form; rank is that of the last of
    them, from 1.
    """
    clean = networks["clean"].centred()
    x, labels = test.pixels.flatten(1).double(), test.labels
    moment = train.second_moment()
    others = test.of(set(range(_digits.CLASSES)) - {TARGET})
    attacked = _digits.Images(stamped(others.pixels), torch.full_like(others.labels, TARGET))
    side = test.pixels.shape[-1]
    trigger = [row * side + column for row, column in TRIGGER]
    tables = []
    for kind in KINDS:
        after = networks[kind].centred()
        order = np.argsort(-change(clean, after), axis=1)
        places = np.argsort(order, axis=1)[:, trigger]
        tables.append(
            pd.DataFrame(
                {
                    "kind": kind,
                    "output": ["all", *map(str, range(_digits.CLASSES))],
                    "tensor": [ts.similarity(clean, after), *ts.slices(clean, after)],
                    "data": [
                        ts.similarity(clean, after, second_moment=moment),
                        *ts.slices(clean, after, second_moment=moment),
                    ],
                    "logit": [
                        ts.behavioural_cosine(clean, after, x, outputs)
                        for outputs in (None, *([k] for k in range(_digits.CLASSES)))
                    ],
                    "digit": [
                        ts.behavioural_cosine(clean, after, x[labels == k] if k >= 0 else x)
                        for k in range(-1, _digits.CLASSES)
                    ],
                    "hits": [np.nan, *(places < len(trigger)).sum(axis=1)],
                    "rank": [np.nan, *(1 + places.max(axis=1))],
                    "accuracy": [_digits.right(networks[kind], test).mean(), *[np.nan] * _digits.CLASSES],
                    "attack": [_digits.right(networks[kind], attacked).mean(), *[np.nan] * _digits.CLASSES],
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def change(before: ts.Bilinear, after: ts.Bilinear) -> np.ndarray:
    """How much every output's quadratic form changes at every pixel (output, pixel): norms of the rows."""
    return np.linalg.norm(after.forms() - before.forms(), axis=2)[:, 1:]


def measure(seed: int, decay: float, steps: int = STEPS, folder: str | None = None) -> tuple[pd.DataFrame, dict]:
    """Train and compare; also the networks. Weights are rounded to half precision first, as they are shipped."""
    images, test = _digits.read(folder, BORDER)
    networks = {kind: _digits.rounded(layer) for kind, layer in train(images, seed, decay, steps).items()}
    table = compare(networks, images, test).assign(seed=seed, decay=decay)
    return table[COLUMNS], networks


def main(folder: str | None = None) -> None:
    torch.set_num_threads(1)
    jobs = [(seed, decay) for decay in DECAYS for seed in SEEDS if decay == DECAYS[0] or seed < 3]
    tables = []
    for seed, decay in tqdm(jobs):
        table, networks = measure(seed, decay, folder=folder)
        tables.append(table)
        if (seed, decay) == (SHIPPED, DECAYS[0]) and folder is None:
            weights = _digits.stored(networks)
    table = pd.concat(tables, ignore_index=True)
    if folder is not None:
        print(table.to_string(index=False))
        return
    settings = {"hidden": HIDDEN, "steps": STEPS, "learning_rate": LEARNING_RATE, "batch": _digits.BATCH}
    facts = {"seeds": list(SEEDS), "decays": list(DECAYS), "training": settings, "shipped": SHIPPED}
    _table.write_networks("backdoor", weights, **facts)
    _table.write("backdoor", table, **facts)


if __name__ == "__main__":
    main(*sys.argv[1:2])
