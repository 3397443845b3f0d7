"""One bilinear layer that reads digits, and what is left of it when each output keeps few eigenvectors.

python book/studies/digits_layer.py writes digits_layer.safetensors and digits_layer.json, in a quarter of a minute on
one core. The page reads the layers through `layer`; what training gives can differ between processors.
"""

from __future__ import annotations

import _digits
import _table
import numpy as np
import torch

import tasksym as ts

SEEDS = range(5)
HIDDEN, STEPS, LEARNING_RATE, DECAY, NOISE = 64, 1500, 2e-3, 0.5, 0.05
IMAGES, TEST = _digits.digits()
MOMENT = IMAGES.second_moment()


def train(seed: int, steps: int = STEPS) -> ts.Bilinear:
    """Trained with fresh noise on the pixels and a rate that falls to zero."""
    rng = np.random.default_rng(seed)
    start = _digits.start(IMAGES.pixels[0].numel(), HIDDEN, rng)
    return _digits.fit(start, IMAGES, steps, rng, learning_rate=LEARNING_RATE, decay=DECAY, noise=NOISE, cosine=True)


def layer(seed: int) -> ts.Bilinear:
    """The shipped layer of a seed, in float64, with centred logits."""
    return _digits.shipped(_table.FOLDER / "digits_layer.safetensors")[str(seed)].centred()


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


@torch.no_grad()
def logits(layer: ts.Bilinear) -> torch.Tensor:
    """Of the digits for judging (digit, 10)."""
    return layer(TEST.pixels.flatten(1))


def accuracy(layer: ts.Bilinear) -> float:
    """On the digits for judging."""
    return float(_digits.right(layer, TEST).mean())


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
        "moments": float(ts.distance(whole, part, second_moment=MOMENT)),
        "measured": float((a - b).norm() / a.norm()),
        "accuracy": accuracy(part),
        "agreement": agreement(whole, part),
    }


def main() -> None:
    torch.set_num_threads(1)
    _table.write_networks(
        "digits_layer",
        _digits.stored({str(seed): train(seed) for seed in SEEDS}),
        seeds=list(SEEDS),
        training={
            "hidden": HIDDEN,
            "steps": STEPS,
            "batch": _digits.BATCH,
            "learning_rate": LEARNING_RATE,
            "weight_decay": DECAY,
            "noise": NOISE,
        },
    )


if __name__ == "__main__":
    main()
