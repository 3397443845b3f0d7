"""A digit classifier that learns digits one after another, forgets one and learns it again, stage by stage.

python book/studies/forgetting.py writes forgetting.csv, forgetting.json, and the networks of one seed,
forgetting.safetensors, in about two minutes on one core. With a folder that has SVHN's train_32x32.mat and
test_32x32.mat as its argument it prints the table for those instead, and writes nothing.
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
SHIPPED = int(np.random.default_rng(2027).choice(SEEDS))  # the seed whose networks are shipped
GROWTH = {"0–4": 5, "+5": 6, "+6": 7, "+7": 8, "+8": 9, "+9": 10, "repeat": 10}  # how many digits each stage shows
STAGES = [*GROWTH, "keep", "drop 9", "re-add", "drop other"]
REFERENCE = "repeat"
HIDDEN, STEPS, LEARNING_RATE, DECAY, NOISE = 64, 1500, 2e-3, 0.5, 0.05
COLUMNS = ["seed", "stage", "output", "tensor", "uncentred", "data", "logit", "logit_uncentred", "accuracy"]


def other(seed: int) -> int:
    """The digit that is dropped in place of the 9 in another branch."""
    return int(np.random.default_rng([seed, 1]).integers(9))


def train(images: _digits.Images, seed: int, steps: int = STEPS) -> dict[str, ts.Bilinear]:
    """The network after every stage, which starts from the one before.

    After "repeat" the ways part: "keep" goes on with all digits, "drop 9" and "drop other" with nine of them; "re-add"
    follows "drop 9".
    """
    rng = np.random.default_rng(seed)
    everything = set(range(_digits.CLASSES))
    shown = {name: range(count) for name, count in GROWTH.items()}
    shown |= {"keep": everything, "drop 9": everything - {9}, "re-add": everything}
    shown["drop other"] = everything - {other(seed)}
    before = dict.fromkeys(("keep", "drop 9", "drop other"), REFERENCE) | {"re-add": "drop 9"}
    networks, layer = {}, _digits.start(images.pixels[0].numel(), HIDDEN, rng)
    for stage in STAGES:
        layer = networks.get(before.get(stage), layer)
        layer = networks[stage] = _digits.fit(
            layer,
            images.of(shown[stage]),
            steps,
            rng,
            learning_rate=LEARNING_RATE,
            decay=DECAY,
            noise=NOISE,
            cosine=True,
        )
    return networks


@torch.no_grad()
def compare(networks: dict[str, ts.Bilinear], train: _digits.Images, test: _digits.Images) -> pd.DataFrame:
    """Similarity of every stage to the last one before the ways part, by output and over all of them.

    tensor: N(0, I) inputs, less the mean of the outputs; uncentred: without that; data: N(μ, C) as the training images
    have them; logit and logit_uncentred: cosines of one output over the test images. accuracy is of the images that
    show the digit.
    """
    x = test.pixels.flatten(1).double()
    moment = train.second_moment()
    whole, tables = networks[REFERENCE], []
    for stage, layer in networks.items():
        centred, plain = (whole.centred(), layer.centred()), (whole, layer)
        right = _digits.right(layer, test)
        outputs = [None, *([k] for k in range(_digits.CLASSES))]
        columns = {
            "tensor": [ts.similarity(*centred), *ts.slices(*centred)],
            "uncentred": [ts.similarity(*plain), *ts.slices(*plain)],
            "data": [ts.similarity(*centred, second_moment=moment), *ts.slices(*centred, second_moment=moment)],
            "logit": [ts.behavioural_cosine(*centred, x, some) for some in outputs],
            "logit_uncentred": [ts.behavioural_cosine(*plain, x, some) for some in outputs],
            "accuracy": [right.mean(), *(right[test.labels == k].mean() for k in range(_digits.CLASSES))],
        }
        names = ["all", *map(str, range(_digits.CLASSES))]
        tables.append(pd.DataFrame({"stage": stage, "output": names} | columns))
    return pd.concat(tables, ignore_index=True)


def measure(seed: int, steps: int = STEPS, folder: str | None = None) -> tuple[pd.DataFrame, dict]:
    """Train and compare; also the networks. Weights are rounded to half precision first, as they are shipped."""
    images, test = _digits.read(folder)
    networks = {stage: _digits.rounded(layer) for stage, layer in train(images, seed, steps).items()}
    return compare(networks, images, test).assign(seed=seed)[COLUMNS], networks


def main(folder: str | None = None) -> None:
    torch.set_num_threads(1)
    tables = []
    for seed in tqdm(SEEDS):
        table, networks = measure(seed, folder=folder)
        tables.append(table)
        if seed == SHIPPED and folder is None:
            weights = _digits.stored(networks)
    table = pd.concat(tables, ignore_index=True)
    if folder is not None:
        print(table.to_string(index=False))
        return
    settings = {
        "hidden": HIDDEN,
        "steps": STEPS,
        "learning_rate": LEARNING_RATE,
        "weight_decay": DECAY,
        "noise": NOISE,
    }
    facts = {"seeds": list(SEEDS), "training": settings, "shipped": SHIPPED, "other": {s: other(s) for s in SEEDS}}
    _table.write_networks("forgetting", weights, **facts)
    _table.write("forgetting", table, **facts)


if __name__ == "__main__":
    main(*sys.argv[1:2])
