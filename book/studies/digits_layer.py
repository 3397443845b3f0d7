"""One bilinear layer that reads digits, and what is left of it when each output keeps few eigenvectors.

python book/studies/digits_layer.py writes digits_layer.safetensors and digits_layer.json, in about a minute on one
core. The page reads the layers through `layer`; what training gives can differ between processors.
"""

from __future__ import annotations

import functools

import _table
import numpy as np
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import nn

import tasksym as ts

SEEDS = range(5)
HIDDEN, STEPS, LEARNING_RATE, DECAY, NOISE = 64, 1500, 2e-3, 0.5, 0.05
TRAIN = 1437  # of 1797 digits; the others are for judging


@functools.cache
def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images (digit, 64) with ink from 0 to 1 and their labels, for training and then for judging."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = torch.tensor(images[order] / 16), torch.tensor(labels[order])
    return images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:]


@functools.cache
def moment() -> np.ndarray:
    """The second moment (65, 65) of the training images, with their mean in its first row."""
    images, *_ = digits()
    images = images.numpy()
    return ts.moment_matrix(images.mean(axis=0), np.cov(images.T, bias=True))


def train(seed: int, steps: int = STEPS) -> ts.Bilinear:
    """Cross-entropy on all training digits with fresh noise on the pixels, AdamW with a cosine schedule."""
    images, labels, _, _ = digits()
    images, noise = images.float(), torch.Generator().manual_seed(seed)
    layer = ts.Bilinear.random(images.shape[1], HIDDEN, 10, rng=seed)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=LEARNING_RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        optimiser.zero_grad()
        noisy = images + NOISE * torch.randn(images.shape, generator=noise)
        nn.functional.cross_entropy(layer(noisy), labels).backward()
        optimiser.step()
        schedule.step()
    return layer


def layer(seed: int) -> ts.Bilinear:
    """The shipped layer of a seed, in float64, with centred logits."""
    stored = _shipped()
    return ts.Bilinear(*(stored[f"{seed}.{name}"].double() for name in "DLR")).centred()


def truncated(layer: ts.Bilinear, rank: int, weight: np.ndarray | None = None) -> ts.Bilinear:
    """The layer of which every output keeps `rank` eigenvectors of its form, those of the largest |eigenvalue|.

    With a weight M the eigenvectors are those of M Q M, taken back through M⁻¹: the best rank where M² is the second
    moment of the inputs.
    """
    forms = layer.forms()
    M = np.eye(forms.shape[1]) if weight is None else weight
    values, vectors = np.linalg.eigh(M @ forms @ M)
    kept = np.argsort(-np.abs(values), axis=1)[:, :rank]
    values = np.take_along_axis(values, kept, axis=1).reshape(-1, 1)
    vectors = np.take_along_axis(np.linalg.solve(M, vectors), kept[:, None], axis=2)
    rows = vectors.swapaxes(1, 2).reshape(-1, forms.shape[1])
    D = np.kron(np.eye(len(forms)), np.ones(kept.shape[1]))
    return ts.Bilinear(D, values * rows, rows).centred()


def root(moment: np.ndarray, smallest: float = 1e-6) -> np.ndarray:
    """The symmetric square root, whose eigenvalues are kept off zero: some pixels never have ink."""
    values, vectors = np.linalg.eigh(moment)
    return vectors * np.sqrt(np.clip(values, smallest, None)) @ vectors.T


def logits(layer: ts.Bilinear) -> torch.Tensor:
    """Of the digits for judging (digit, 10)."""
    _, _, images, _ = digits()
    with torch.no_grad():
        return layer(images)


def accuracy(layer: ts.Bilinear) -> float:
    """On the digits for judging."""
    _, _, _, labels = digits()
    return float((logits(layer).argmax(dim=1) == labels).double().mean())


def agreement(layer: ts.Bilinear, other: ts.Bilinear) -> float:
    """Share of the digits for judging that both call by one name, right or wrong."""
    return float((logits(layer).argmax(dim=1) == logits(other).argmax(dim=1)).double().mean())


def certify(seed: int, rank: int, weight: np.ndarray | None = None) -> dict[str, float]:
    """How far a truncated layer is from the whole, by its weights and by its answers to the digits for judging."""
    whole = layer(seed)
    part = truncated(whole, rank, weight)
    a, b = logits(whole), logits(part)
    return {
        "seed": seed,
        "rank": rank,
        "N(0, I)": float(ts.distance(whole, part)),
        "moments": float(ts.distance(whole, part, second_moment=moment())),
        "measured": float((a - b).norm() / a.norm()),
        "accuracy": accuracy(part),
        "agreement": agreement(whole, part),
    }


@functools.cache
def _shipped() -> dict[str, torch.Tensor]:
    return load_file(_table.FOLDER / "digits_layer.safetensors")


def main() -> None:
    torch.set_num_threads(1)
    trained = {seed: train(seed) for seed in SEEDS}
    tensors = {f"{seed}.{name}": getattr(each, name) for seed, each in trained.items() for name in "DLR"}
    _table.write_networks(
        "digits_layer",
        tensors,
        seeds=list(SEEDS),
        training={
            "digits": TRAIN,
            "steps": STEPS,
            "learning_rate": LEARNING_RATE,
            "weight_decay": DECAY,
            "noise": NOISE,
        },
    )


if __name__ == "__main__":
    main()
