"""Small classifiers of the plane: trained, trained on shuffled labels, and not trained at all.

python book/studies/classifiers.py writes classifiers.safetensors and classifiers.json, in about half a minute on one
core. Pages read the networks through `classifier`; what training gives can differ between processors.
"""

from __future__ import annotations

import functools

import _table
import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

TASKS = ("wedge", "annulus")
KINDS = ("trained", "shuffled", "untrained")
SEEDS = range(5)
HIDDEN, POINTS, STEPS, LEARNING_RATE, DECAY = 16, 1000, 1500, 1e-2, 1e-4


def network(seed: int) -> nn.Sequential:
    """2-16-16-1, tanh, with the start of that seed; in float64, which a lift needs."""
    rng = torch.Generator().manual_seed(seed)
    layers = nn.Sequential(
        nn.Linear(2, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)
    ).double()
    with torch.no_grad():
        for layer in layers[::2]:
            bound = layer.in_features**-0.5
            for weights in (layer.weight, layer.bias):
                weights.uniform_(-bound, bound, generator=rng)
    return layers


def labels(task: str, points) -> torch.Tensor:
    """1 inside, 0 outside, (point,): a wedge, which a rotation moves, or an inner disc, which it keeps."""
    x, y = points[..., 0], points[..., 1]
    r = torch.hypot(x, y)
    inside = (torch.atan2(y, x).abs() < np.pi / 4) & (r > 0.35) if task == "wedge" else r < 0.75
    return inside.double()


def sample(task: str, seed: int, points: int = POINTS) -> tuple[torch.Tensor, torch.Tensor]:
    """Points (point, 2), uniform in area, and their labels (point,). The annulus leaves a gap, .6 < r < .9."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(-np.pi, np.pi, points)
    square = rng.uniform(0, 1, points)
    if task == "annulus":  # as much inside as outside
        inside = rng.uniform(size=points) < 0.5
        r = np.where(inside, 0.6 * np.sqrt(square), np.sqrt(0.9**2 + (1.4**2 - 0.9**2) * square))
    else:
        r = 1.4 * np.sqrt(square)
    drawn = torch.from_numpy(np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1))
    return drawn, labels(task, drawn)


def accuracy(model: nn.Module, task: str, seed: int, angle: float = 0.0) -> float:
    """On fresh points, with the task itself turned by an angle."""
    points, wanted = sample(task, 1000 + seed)
    turn = torch.tensor([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    with torch.no_grad():
        return float(((model(points @ turn)[:, 0] > 0) == (wanted > 0)).double().mean())


def train(task: str, seed: int, shuffled: bool = False) -> nn.Sequential:
    """Cross-entropy on the whole sample, Adam with a cosine schedule."""
    points, wanted = sample(task, seed)
    if shuffled:
        wanted = wanted[torch.from_numpy(np.random.default_rng(seed).permutation(len(wanted)))]
    model = network(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(points)[:, 0], wanted).backward()
        optimiser.step()
        schedule.step()
    return model


def classifier(task: str, seed: int, kind: str = "trained") -> nn.Sequential:
    """The shipped network of a task, seed and kind."""
    model = network(seed)
    if kind != "untrained":
        start = f"{task}.{kind}.{seed}."
        stored = {name.removeprefix(start): value for name, value in _shipped().items() if name.startswith(start)}
        model.load_state_dict(stored)
    return model


@functools.cache
def _shipped() -> dict[str, torch.Tensor]:
    return load_file(_table.FOLDER / "classifiers.safetensors")


def main() -> None:
    torch.set_num_threads(1)
    networks = {
        f"{task}.{kind}.{seed}.{name}": value
        for task in TASKS
        for kind in KINDS[:2]
        for seed in SEEDS
        for name, value in train(task, seed, kind == "shuffled").state_dict().items()
    }
    _table.write_networks(
        "classifiers",
        networks,
        seeds=list(SEEDS),
        training={"points": POINTS, "steps": STEPS, "learning_rate": LEARNING_RATE, "weight_decay": DECAY},
    )


if __name__ == "__main__":
    main()
