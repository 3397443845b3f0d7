"""How far the layer-by-layer similarity of bilinear stacks is from the truth, at depth two to four.

python book/studies/closure_bias.py writes closure_bias.csv and closure_bias.json, in a few minutes on one core.
"""

from __future__ import annotations

import itertools

import _table
import numpy as np
import pandas as pd
import torch

import tasksym as ts

INPUTS = (4, 32)
DEPTHS = (2, 3, 4)
SEEDS = range(8)
CHANGE = 0.2  # of every matrix, in units of its spread
SAMPLES = 100_000


def pair(inputs: int, depth: int, seed: int, residual: bool = False) -> tuple[ts.BilinearStack, ts.BilinearStack]:
    """A random stack of twice as many units a layer as inputs, and a copy with noise on every weight."""
    A = ts.BilinearStack.random(
        [inputs] * (depth + 1), 2 * inputs, rng=seed, residual=bool(residual), dtype=torch.float64
    )
    rng, layers = np.random.default_rng(1000 + seed), []
    for layer in A.layers:
        weights = [W.detach().numpy() for W in (layer.D, layer.L, layer.R)]
        layers.append(ts.Bilinear(*(W + CHANGE * W.std() * rng.normal(size=W.shape) for W in weights)))
    return A, ts.BilinearStack(layers, residual=bool(residual))


def expectation(A, B, nodes: int) -> float:
    """E[A(x) · B(x)] for x ~ N(0, I) by Gauss–Hermite, exact up to degree 2 nodes − 1; for few inputs only."""
    inputs = (A.layers[0] if isinstance(A, ts.BilinearStack) else A).inputs
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    x = torch.tensor(list(itertools.product(points, repeat=inputs)))
    w = np.prod(list(itertools.product(weights / weights.sum(), repeat=inputs)), axis=1)
    with torch.no_grad():
        return float(w @ (A(x) * B(x)).sum(dim=1).numpy())


def quadrature(A: ts.BilinearStack, B: ts.BilinearStack) -> float:
    """The true cosine of two stacks, for x ~ N(0, I)."""
    nodes = 2 ** len(A.layers) + 1  # the product has twice the degree of each
    aa, ab, bb = (expectation(*two, nodes) for two in ((A, A), (A, B), (B, B)))
    return ab / (np.sqrt(aa) * np.sqrt(bb))


def measure(inputs: int, residual: bool, depth: int, seed: int) -> pd.DataFrame:
    """One pair: the closure, what is exact where something is, and two independent drawings."""
    A, B = pair(inputs, depth, seed, residual)
    drawn = [ts.monte_carlo(A, B, SAMPLES, rng=rng) for rng in (0, 1)]
    row = {
        "inputs": inputs,
        "residual": residual,
        "depth": depth,
        "seed": seed,
        "closure": float(ts.similarity(A, B, method="closure")),
        "exact": float(ts.similarity(A, B)) if depth == 2 else np.nan,
        "quadrature": quadrature(A, B) if inputs == min(INPUTS) else np.nan,
        "drawn": float(drawn[0]),
        "again": float(drawn[1]),
        "error": drawn[0].error,
    }
    return pd.DataFrame([row])


def main(workers: int | None = None) -> None:
    jobs = list(itertools.product(INPUTS, (False, True), DEPTHS, SEEDS))
    table = _table.compute(measure, jobs, workers)
    _table.write("closure_bias", table, seeds=list(SEEDS), change=CHANGE, samples=SAMPLES)


if __name__ == "__main__":
    main()
