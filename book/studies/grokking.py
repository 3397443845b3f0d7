"""Bilinear networks that learn a + b mod 53 from half of the table: how alike their checkpoints are, and to which end.

python book/studies/grokking.py writes grokking.csv, a row a pair of checkpoints, grokking-checkpoints.csv, a row a
checkpoint, and grokking.safetensors, some of the networks, with their provenance, in about five minutes of one core.
"""

from __future__ import annotations

import _table
import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch.nn import functional
from tqdm import tqdm

import tasksym as ts

P, HIDDEN = 53, 64
STEPS, LEARNING_RATE, DECAY, BETAS = 6000, 3e-3, 1.0, (0.9, 0.98)
KINDS = {"half": range(5), "whole": range(3), "no decay": range(3)}  # the last two are controls
EVERY = 20  # steps between two looks at the test accuracy
CHECKPOINTS = [0, *sorted({EVERY * round(step / EVERY) for step in np.geomspace(EVERY, STEPS, 28)})]
LEARNED = 0.99  # of the test pairs right, and the network counts as having learned
MEASURES = ["identity", "moment", "gauss", "logits", "cka", "matrix"]
FREQUENCIES = range(1, P // 2 + 1)


def table() -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs as one-hot inputs (pair, 2 P) and a + b mod P (pair,)."""
    a, b = torch.cartesian_prod(torch.arange(P), torch.arange(P)).T
    return torch.cat([functional.one_hot(a, P), functional.one_hot(b, P)], dim=1).float(), (a + b) % P


def parts(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which pairs are for training, and which for testing."""
    order = torch.from_numpy(np.random.default_rng((seed, 1)).permutation(P * P))
    return order[: P * P // 2], order[P * P // 2 :]


def moment() -> np.ndarray:
    """E[x̃ x̃ᵀ] of x̃ = (1, x) for the one-hot inputs of all pairs."""
    lifted = functional.pad(table()[0], (1, 0), value=1.0).double()
    return (lifted.T @ lifted / len(lifted)).numpy()


def train(kind: str, seed: int, steps: int = STEPS) -> tuple[dict[int, ts.Bilinear], int | None]:
    """Centred copies of the network at all checkpoints, and the first step at which it had learned, if any.

    Kind is "half", of the table with weight decay; "whole", where no pair is left to test; or "no decay".
    """
    (inputs, sums), (seen, unseen) = table(), parts(seed)
    if kind == "whole":
        seen = unseen = torch.arange(P * P)
    net = ts.Bilinear.random(2 * P, HIDDEN, P, rng=seed, lift=False)
    decay = 0.0 if kind == "no decay" else DECAY
    optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE, weight_decay=decay, betas=BETAS)
    kept, learned = {}, None
    for step in range(steps + 1):
        if learned is None and step % EVERY == 0 and accuracy(net, unseen) >= LEARNED:
            learned = step
        if step in CHECKPOINTS:
            kept[step] = net.centred()
        optimiser.zero_grad()
        functional.cross_entropy(net(inputs[seen]), sums[seen]).backward()
        optimiser.step()
    return kept, learned


@torch.no_grad()
def accuracy(net: ts.Bilinear, pairs: torch.Tensor) -> float:
    inputs, sums = table()
    return float((net(inputs[pairs].to(net.D.dtype)).argmax(dim=1) == sums[pairs]).double().mean())


def forms(net: ts.Bilinear) -> np.ndarray:
    """Quadratic forms of the one-hot inputs (sum, 2 P, 2 P), without the row and column of the 1."""
    return net.forms()[:, 1:, 1:]


def crossed(net: ts.Bilinear) -> np.ndarray:
    """The part of the logits that knows both a and b: array (sum, a, b)."""
    return 2 * forms(net)[:, :P, P:]


def spectrum(net: ts.Bilinear) -> np.ndarray:
    """Share of the squares of `crossed` that lies in cos and sin of 2πk(a + b − c)/P, for k = 1 to (P − 1)/2."""
    transform = np.abs(np.fft.fftn(crossed(net))) ** 2
    k = np.arange(1, P)
    along = transform[-k, k, k] / transform.sum()
    return along[: P // 2] + along[::-1][: P // 2]


def keep_frequencies(net: ts.Bilinear, frequencies) -> np.ndarray:
    """`crossed` with nothing left but cos and sin of 2πk(a + b − c)/P for the given k."""
    transform = np.fft.fftn(crossed(net))
    k = np.concatenate([np.asarray(frequencies, int), P - np.asarray(frequencies, int)])
    kept = np.zeros_like(transform)
    kept[-k, k, k] = transform[-k, k, k]
    return np.fft.ifftn(kept).real


def unseen_share(net: ts.Bilinear) -> float:
    """Share of the squares of all forms on pairs of inputs that never occur: one operand with two values."""
    within = np.kron(np.eye(2), 1 - np.eye(P)) > 0
    squares = (forms(net) ** 2).sum(axis=0)
    return float(squares[within].sum() / squares.sum())


def compare(nets: list[ts.Bilinear], pairs: list[tuple[int, int]]) -> pd.DataFrame:
    """All `MEASURES` of some pairs of networks: a row a pair.

    "identity" and "moment" are similarities of the symmetrised tensors, with Σ = I and with the true second moment;
    "gauss" is the similarity over Gaussian inputs of that moment.
    """
    inputs, S = table()[0].double(), moment()
    nets = [net.double() for net in nets]
    with torch.no_grad():
        hidden = [((inputs @ net.L.T) * (inputs @ net.R.T)).numpy() for net in nets]
        logits = [net(inputs) for net in nets]
    rows = []
    for i, j in pairs:
        row = {"identity": ts.similarity(nets[i], nets[j], "sym")}
        row["moment"] = ts.similarity(nets[i], nets[j], "sym", second_moment=S)
        row["gauss"] = ts.similarity(nets[i], nets[j], "gauss", second_moment=S)
        row["logits"] = functional.cosine_similarity(logits[i].flatten(), logits[j].flatten(), dim=0).item()
        row["cka"] = ts.linear_cka(hidden[i], hidden[j])
        row["matrix"] = ts.matrix_cosine(nets[i], nets[j])
        rows.append({name: float(value) for name, value in row.items()})
    return pd.DataFrame(rows, columns=MEASURES)


def describe(net: ts.Bilinear, seed: int) -> dict[str, float]:
    """What one checkpoint is like by itself: accuracies, spectrum, and the share that no input shows."""
    seen, unseen = parts(seed)
    row = {"train": accuracy(net, seen), "test": accuracy(net, unseen)}
    row["unseen_share"] = unseen_share(net)
    return row | {f"k{k}": share for k, share in zip(FREQUENCIES, spectrum(net), strict=True)}


def measure(kind: str, seed: int, nets: dict[int, ts.Bilinear], learned: int | None):
    """The rows of one run: of pairs of checkpoints, and of checkpoints. For controls: neighbours and the last only."""
    steps, last = list(nets), len(nets) - 1
    pairs = [(i, j) for j in range(len(steps)) for i in range(j)]
    if kind != "half":
        pairs = [(i, j) for i, j in pairs if j in (i + 1, last)]
    run = {"kind": kind, "seed": seed}
    where = pd.DataFrame([run | {"step": steps[i], "other": steps[j]} for i, j in pairs])
    checkpoints = [run | {"learned": learned, "step": step} | describe(net, seed) for step, net in nets.items()]
    return pd.concat([where, compare(list(nets.values()), pairs)], axis=1), pd.DataFrame(checkpoints)


def shipped() -> dict[tuple[int, int], ts.Bilinear]:
    """The networks that are stored, by seed and step, in float64."""
    stored = load_file(_table.FOLDER / "grokking.safetensors")
    names = {name.rpartition(".")[0] for name in stored}
    return {
        tuple(map(int, name.split("."))): ts.Bilinear(*(stored[f"{name}.{W}"].double() for W in "DLR"), lift=False)
        for name in sorted(names)
    }


def main() -> None:
    torch.set_num_threads(1)
    pairs, checkpoints, stored = [], [], {}
    for kind, seed in tqdm([(kind, seed) for kind, seeds in KINDS.items() for seed in seeds], unit="run"):
        nets, learned = train(kind, seed)
        for rows, table in zip((pairs, checkpoints), measure(kind, seed, nets, learned), strict=True):
            rows.append(table)
        if kind == "half":
            steps = (
                [STEPS] if seed else [next(s for s in nets if s >= learned), next(s for s in nets if s >= 2 * learned)]
            )
            for step in {*steps, STEPS}:
                half = nets[step].half()
                stored |= {f"{seed}.{step}.{name}": W for name, W in half.named_parameters()}
    facts = {
        "seeds": {kind: list(seeds) for kind, seeds in KINDS.items()},
        "training": {"p": P, "hidden": HIDDEN, "steps": STEPS, "learning_rate": LEARNING_RATE, "decay": DECAY},
    }
    _table.write_networks("grokking", stored, **facts)
    _table.write("grokking-checkpoints", pd.concat(checkpoints, ignore_index=True), **facts)
    _table.write("grokking", pd.concat(pairs, ignore_index=True), **facts)


if __name__ == "__main__":
    main()
