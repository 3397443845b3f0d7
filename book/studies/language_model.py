"""Attention-only models of characters: how alike their checkpoints are, and which n-gram statistics they know.

python book/studies/language_model.py writes language_model.csv, a row a pair of checkpoints,
language_model-checkpoints.csv, a row a checkpoint, and language_model.safetensors, some of the networks, with their
provenance, in about five minutes of one core. Texts differ between Python versions, so that other versions give other
numbers.
"""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from itertools import combinations
from pydoc_data.topics import topics

import _table
import numpy as np
import pandas as pd
import scipy.stats
import torch
from safetensors.torch import load_file
from torch.nn import functional
from tqdm import tqdm

import tasksym as ts

CHARACTERS, CONTEXT, WIDTH, HEADS, SIZE = 64, 32, 32, 4, 8
STEPS, BATCH, LEARNING_RATE = 2000, 64, 5e-3
CHECKPOINTS = [0, *sorted({round(step) for step in np.geomspace(1, STEPS, 24)})]
RUNS = {1: range(2), 2: range(1)}  # seeds by number of layers
EMBEDDING = 0.5  # standard deviation at the start
HELD_OUT = 256  # windows of the last tenth of the text
MEASURES = ["identity", "moment", "logits", "cka", "matrix"]
ORDERS = {1: "unigram", 2: "bigram", 3: "trigram"}
STORED = (0, 10, 15, 23)  # checkpoints of seed 0 that are shipped, by place


def text() -> str:
    """Help texts that every Python has."""
    return "\n".join(topics[name] for name in sorted(topics))


def encoded() -> torch.Tensor:
    """The text as integers: the 63 most frequent characters, and 63 for all the rest."""
    characters = text()
    frequent = [each for each, _ in sorted(Counter(characters).items(), key=lambda each: (-each[1], each[0]))]
    numbers = {each: place for place, each in enumerate(frequent[: CHARACTERS - 1])}
    return torch.tensor([numbers.get(each, CHARACTERS - 1) for each in characters])


def split(codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Text to train on, and windows (window, position + 1) of its last tenth."""
    border = len(codes) - len(codes) // 10
    starts = torch.linspace(border, len(codes) - CONTEXT - 1, HELD_OUT).long()
    return codes[:border], codes[starts[:, None] + torch.arange(CONTEXT + 1)]


def statistics(codes: torch.Tensor) -> dict[int, np.ndarray]:
    """Log-probabilities of a character after the 0, 1 or 2 before it: arrays (64, ..., 64), the last axis the next.

    Every order adds to its counts one pseudo-count, spread as the order below predicts.
    """
    below, tables = np.full(CHARACTERS, 1 / CHARACTERS), {}
    for n in ORDERS:
        grams = np.stack([codes[i : len(codes) - n + 1 + i].numpy() for i in range(n)])
        counts = np.zeros(n * (CHARACTERS,))
        np.add.at(counts, tuple(grams), 1)
        below = (counts + below) / (counts.sum(axis=-1, keepdims=True) + 1)  # broadcasts over the earliest character
        tables[n] = np.log(below)
    return tables


def model(layers: int, seed: int) -> ts.AttentionStack:
    rng = np.random.default_rng(seed)
    stack = [ts.BilinearAttention.random(WIDTH, HEADS, SIZE, rng=rng) for _ in range(layers)]
    embedding = (EMBEDDING * rng.normal(size=(WIDTH, CHARACTERS))).astype(np.float32)
    head = (rng.normal(size=(CHARACTERS, WIDTH)) / WIDTH).astype(np.float32)
    return ts.AttentionStack(stack, embedding=embedding, head=head)


def train(layers: int, seed: int, codes: torch.Tensor, steps: int = STEPS) -> dict[int, ts.AttentionStack]:
    """Centred copies of the network at all checkpoints up to `steps`."""
    codes, rng = split(codes)[0], torch.Generator().manual_seed(seed)
    net = model(layers, seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE)
    kept = {}
    for step in range(steps + 1):
        if step in CHECKPOINTS:
            kept[step] = centred(net)
        starts = torch.randint(len(codes) - CONTEXT, (BATCH, 1), generator=rng)
        windows = codes[starts + torch.arange(CONTEXT + 1)]
        optimiser.zero_grad()
        functional.cross_entropy(net(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()).backward()
        optimiser.step()
    return kept


@torch.no_grad()
def centred(net: ts.AttentionStack) -> ts.AttentionStack:
    """The network less the mean of its logits, which softmax does not see; a copy, in float64."""
    layers = [ts.BilinearAttention(layer.Q, layer.K, layer.V, layer.O) for layer in net.layers]
    return ts.AttentionStack(layers, embedding=net.embedding, head=net.head - net.head.mean(dim=0)).double()


@torch.no_grad()
def describe(net: ts.AttentionStack, windows: torch.Tensor, tables: dict[int, np.ndarray]) -> dict[str, float]:
    """Held-out loss, and the mean KL divergence from each n-gram prediction to the network's, in nats a character.

    Of the positions from the second on, which have two characters behind the next.
    """
    predicted = functional.log_softmax(net(windows[:, :-1]), dim=-1)[:, 1:].numpy()
    before, last, following = (windows[:, i : CONTEXT + i - 1].numpy() for i in range(3))
    row = {"loss": float(-np.take_along_axis(predicted, following[..., None], -1).mean())}
    known = {1: np.broadcast_to(tables[1], predicted.shape), 2: tables[2][last], 3: tables[3][before, last]}
    for n, name in ORDERS.items():
        row[name] = float((np.exp(known[n]) * (known[n] - predicted)).sum(axis=-1).mean())
        row[f"loss_{name}"] = float(-np.take_along_axis(known[n], following[..., None], -1).mean())
    return row


def frequencies(codes: torch.Tensor) -> np.ndarray:
    """E[x xᵀ] of one-hot characters: how often each occurs, on the diagonal."""
    return np.diag(np.bincount(codes.numpy(), minlength=CHARACTERS) / len(codes))


def cosines(nets: list[ts.AttentionStack], second_moment=None) -> np.ndarray:
    """Similarities of all pairs (network, network); each norm is computed once."""
    products = np.eye(len(nets))
    for j, net in enumerate(nets):
        for i in range(j + 1):
            gram = ts.attention_gram(nets[i], net, CONTEXT, second_moment)
            products[i, j] = products[j, i] = np.einsum("tii->", gram)
    norms = np.sqrt(np.diag(products))
    return products / norms / norms[:, None]


@torch.no_grad()
def compare(nets: list[ts.AttentionStack], windows: torch.Tensor, second_moment: np.ndarray) -> dict[str, np.ndarray]:
    """All `MEASURES` of all pairs: arrays (network, network).

    CKA is that of the residual stream before the head, over all held-out positions.
    """
    inputs = windows[:, :-1]
    streams = [ts.AttentionStack(net.layers, embedding=net.embedding)(inputs).flatten(0, 1).numpy() for net in nets]
    logits = np.stack([net(inputs).flatten().numpy() for net in nets])
    weights = np.stack([torch.cat([p.flatten() for p in net.parameters()]).detach().numpy() for net in nets])
    streams = [stream - stream.mean(axis=0) for stream in streams]
    aligned = np.array([[np.sum((x.T @ y) ** 2) for y in streams] for x in streams])
    measures = {"identity": cosines(nets), "moment": cosines(nets, second_moment)}
    for name, products in (("logits", logits @ logits.T), ("cka", aligned), ("matrix", weights @ weights.T)):
        norms = np.sqrt(np.diag(products))
        measures[name] = products / norms / norms[:, None]
    return measures


def measure(layers: int, seed: int, nets: dict[int, ts.AttentionStack], codes: torch.Tensor):
    """The rows of one run: of pairs of checkpoints, and of checkpoints."""
    training, windows = split(codes)
    tables, steps = statistics(training), np.array(list(nets))
    run = {"layers": layers, "seed": seed}
    measures = compare(list(nets.values()), windows, frequencies(training))
    i, j = np.triu_indices(len(steps), 1)
    pairs = pd.DataFrame(run | {"step": steps[i], "other": steps[j]} | {name: M[i, j] for name, M in measures.items()})
    rows = [run | {"step": step} | describe(net, windows, tables) for step, net in nets.items()]
    return pairs, pd.DataFrame(rows)


def stages(checkpoints: pd.DataFrame) -> np.ndarray:
    """Which n-gram statistics each checkpoint of a run is closest to, by the KL divergence: 1, 2 or 3."""
    return checkpoints[list(ORDERS.values())].to_numpy().argmin(axis=1) + 1


def square(pairs: pd.DataFrame, name: str) -> np.ndarray:
    """The pairs of one run as a symmetric matrix (checkpoint, checkpoint)."""
    steps = sorted({*pairs["step"], *pairs["other"]})
    M = np.eye(len(steps))
    i, j = np.searchsorted(steps, pairs["step"]), np.searchsorted(steps, pairs["other"])
    M[i, j] = M[j, i] = pairs[name]
    return M


def separation(M: np.ndarray, blocks: np.ndarray) -> float:
    """How often a pair of checkpoints inside one block is more alike than a pair across blocks; 0.5 is chance."""
    i, j = np.triu_indices(len(M), 1)
    inside = blocks[i] == blocks[j]
    ranks = scipy.stats.rankdata(M[i, j])[inside]
    return float((ranks.mean() - (len(ranks) + 1) / 2) / (~inside).sum())


def partitions(count: int, parts: int, least: int = 2) -> list[np.ndarray]:
    """All ways to cut a row of checkpoints into blocks of at least some length: block numbers (checkpoint,)."""
    cuts = combinations(range(1, count), parts - 1)
    numbered = [np.searchsorted(borders, np.arange(count), side="right") for borders in cuts]
    return [blocks for blocks in numbered if np.bincount(blocks).min() >= least]


def shipped() -> dict[tuple[int, int], ts.AttentionStack]:
    """The networks of seed 0 that are stored, by layers and step, in float64."""
    stored = load_file(_table.FOLDER / "language_model.safetensors")
    nets = {}
    for name in sorted({name.split(".")[0] for name in stored}):
        layers, step = map(int, name.split("-"))
        net = model(layers, 0).double()
        net.load_state_dict(
            {key.split(".", 1)[1]: W.double() for key, W in stored.items() if key.startswith(f"{name}.")}
        )
        nets[layers, step] = net
    return dict(sorted(nets.items()))


def main() -> None:
    torch.set_num_threads(1)
    codes, pairs, checkpoints, stored = encoded(), [], [], {}
    for layers, seed in tqdm([(layers, seed) for layers, seeds in RUNS.items() for seed in seeds], unit="run"):
        nets = train(layers, seed, codes)
        for rows, table in zip((pairs, checkpoints), measure(layers, seed, nets, codes), strict=True):
            rows.append(table)
        if seed == 0:
            for step in (CHECKPOINTS[place] for place in STORED):
                stored |= {f"{layers}-{step}.{name}": W.half() for name, W in nets[step].state_dict().items()}
    facts = {
        "seeds": {str(layers): list(seeds) for layers, seeds in RUNS.items()},
        "python": platform.python_version(),
        "text": {"characters": len(codes), "sha256": hashlib.sha256(text().encode()).hexdigest()},
        "training": {"steps": STEPS, "batch": BATCH, "learning_rate": LEARNING_RATE, "context": CONTEXT},
    }
    _table.write_networks("language_model", stored, **facts)
    _table.write("language_model-checkpoints", pd.concat(checkpoints, ignore_index=True), **facts)
    _table.write("language_model", pd.concat(pairs, ignore_index=True), **facts)


if __name__ == "__main__":
    main()
