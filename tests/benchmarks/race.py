"""Races against peers on one thread: python tests/benchmarks/race.py [--rounds N] [--only TEXT] [--profile]

In every round each contestant runs once, so that a slow moment of the machine hits all of them. The median over rounds
of the ratio within a round is told. Contestants are compared before they run: they must compute the same.
"""

import argparse
import cProfile
import datetime
import json
import os
import platform
import pstats
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.linalg
import torch
from tqdm import tqdm

import tasksym as ts
from tasksym.ablation import TOGETHER

try:
    import jax
except ImportError:
    jax = None

# One thread for everybody. Freed memory is kept: whether the system takes it back in the middle of a race is chance,
# and costs whoever allocates most a third of its time. All this is read only when a process starts.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
}
RESULTS = Path(__file__).parent / "results.json"
TASK = ts.FlipFlop()  # 3 channels, 60 steps
HIDDEN, TRIALS, EVALUATION_TRIALS = 64, 64, 512
WARM_UP = 2
COSINE_ERROR = 1e-3  # at which Monte Carlo is raced
SAMPLES = 4096  # of it that are drawn in a race; the rest cost the same each
PILOT = 2**28  # multiplications a matrix that a pilot may take, which tells how many samples are needed
CLASSES = 10
LESS = ("scipy.linalg.schur alone", "one layer")  # peers that do less than we do


def ensemble(networks, dtype=torch.float32):
    recipe = ts.Recipe(TASK, hidden=HIDDEN)
    return ts.starting_networks(recipe, range(networks)).to(dtype)


def modules_of(weights):
    """The same networks as torch's own modules, one by one."""
    modules = []
    for W_xh, W_hh, W_hy in zip(weights.W_xh, weights.W_hh, weights.W_hy, strict=True):
        rnn = torch.nn.RNN(W_xh.shape[1], len(W_hh), bias=False, dtype=W_hh.dtype)
        readout = torch.nn.Linear(len(W_hh), len(W_hy), bias=False, dtype=W_hh.dtype)
        for own, given in ((rnn.weight_ih_l0, W_xh), (rnn.weight_hh_l0, W_hh), (readout.weight, W_hy)):
            own.data.copy_(given)
        modules.append((rnn, readout))
    return modules


def training_step(networks):
    """Loss and gradient of an ensemble, each network on trials of its own."""
    weights = ensemble(networks)
    leaves = [matrix.requires_grad_() for matrix in (weights.W_xh, weights.W_hh, weights.W_hy)]
    sampled = [TASK.sample(TRIALS, rng=seed) for seed in range(networks)]
    inputs = torch.tensor(np.stack([each.inputs for each in sampled]))
    targets = torch.tensor(np.stack([each.targets for each in sampled]))
    mask = torch.tensor(sampled[0].mask)
    modules = modules_of(weights)

    def ours():
        return torch.autograd.grad(ts.loss(weights, inputs, targets, mask).sum(), leaves)

    def autograd():
        _, outputs = weights.rollout(inputs)
        return torch.autograd.grad((outputs - targets)[:, mask].square().mean(dim=(1, 2, 3)).sum(), leaves)

    def autograd_indexing():
        drive = inputs.transpose(0, 1) @ weights.W_xh.mT
        states = [torch.tanh(drive[0])]
        for step in range(1, len(drive)):
            states.append(torch.tanh(torch.baddbmm(drive[step], states[-1], weights.W_hh.mT)))
        errors = torch.stack(states) @ weights.W_hy.mT - targets.transpose(0, 1)
        return torch.autograd.grad(errors[mask].square().mean(dim=(0, 2, 3)).sum(), leaves)

    def nn_rnn():
        gradients = []
        for (rnn, readout), x, y in zip(modules, inputs, targets, strict=True):
            error = (readout(rnn(x)[0]) - y)[mask].square().mean()
            gradients.append(torch.autograd.grad(error, [rnn.weight_ih_l0, rnn.weight_hh_l0, readout.weight]))
        return [torch.stack(each) for each in zip(*gradients, strict=True)]

    contestants = {
        "tasksym": ours,
        "nn.RNN, looped": nn_rnn,
        "plain autograd": autograd,
        "plain autograd, drive[t]": autograd_indexing,  # whose backward adds a whole array a step
    }
    if jax is not None:
        contestants["JAX, vmap and scan"] = jax_step(leaves, inputs, targets)
    agree(contestants, rtol=2e-3)
    return contestants


def jax_step(leaves, inputs, targets):
    jnp = jax.numpy

    def error(weights, x, y):
        W_xh, W_hh, W_hy = weights

        def advance(h, x_t):
            h = jnp.tanh(x_t @ W_xh.T + h @ W_hh.T)
            return h, h @ W_hy.T

        _, outputs = jax.lax.scan(advance, jnp.zeros((x.shape[1], len(W_hh))), x)
        return ((outputs - y) ** 2).mean()

    gradient = jax.jit(jax.vmap(jax.grad(error)))
    arrays = [jnp.asarray(leaf.detach().numpy()) for leaf in leaves], jnp.asarray(inputs), jnp.asarray(targets)
    return lambda: jax.block_until_ready(gradient(*arrays))


def ablated_rollouts(dtype):
    """Outputs of one network's variants on the evaluation trials, without gradient."""
    weights = ensemble(1).variants(0, ensemble(TOGETHER).W_hh).to(dtype)
    inputs = torch.tensor(TASK.sample(EVALUATION_TRIALS, rng=0).inputs, dtype=dtype)
    modules = modules_of(weights)

    @torch.no_grad()
    def nn_rnn():
        return [torch.stack([readout(rnn(inputs)[0]) for rnn, readout in modules])]

    contestants = {"tasksym": lambda: [weights.outputs(inputs)], "nn.RNN, looped": nn_rnn}
    agree(contestants, rtol=1e-4)
    return contestants


def schur(n):
    """Ordering costs time on top of LAPACK's Schur form: here less is better, and 1 the limit."""
    W = np.random.default_rng(0).normal(size=(n, n)) / np.sqrt(n)
    return {"tasksym": lambda: ts.ordered_schur(W), "scipy.linalg.schur alone": lambda: scipy.linalg.schur(W)}


@dataclass
class Share:
    """A run that stands for `times` of its like, since all of them would take minutes."""

    run: Callable[[], object]
    times: float

    def __call__(self):
        return self.run()


def tensor_cosine(width, depth=1, method="auto", against=("Monte Carlo",)):
    """A cosine from the weights; by drawing inputs, to a standard error of COSINE_ERROR; and of one layer.

    Of a classifier and the same with noise on its weights.
    """
    A, B = (ts.BilinearStack.random([width] * depth + [CLASSES], width, rng=1) for _ in range(2))
    generator = torch.Generator().manual_seed(0)
    for weights in B.parameters():
        weights.data += 0.3 * weights.std() * torch.randn(weights.shape, generator=generator)

    def ours():
        return ts.similarity(A, B, method=method)

    contestants = {"tasksym": ours}
    if "Monte Carlo" in against:
        drawn = max(SAMPLES, PILOT // width**2)
        pilot = ts.monte_carlo(A, B, drawn, rng=0)
        exact = ours()
        assert exact.method == "closure" or abs(pilot - exact) < 5 * pilot.error, "Monte Carlo finds another cosine"
        needed = drawn * (pilot.error / COSINE_ERROR) ** 2
        peer = Share(lambda: ts.monte_carlo(A, B, SAMPLES, rng=1), needed / SAMPLES)
        contestants[f"Monte Carlo, error {COSINE_ERROR:g}"] = peer
    if "one layer" in against:
        first, other = (ts.Bilinear.random(width, width, CLASSES, rng=seed) for seed in (1, 2))
        contestants["one layer"] = lambda: ts.similarity(first, other)
    return contestants


RACES = {
    "training step, 4 networks": lambda: training_step(4),
    "training step, 8 networks": lambda: training_step(8),
    "training step, 32 networks": lambda: training_step(32),
    "ablated rollouts, float64": lambda: ablated_rollouts(torch.float64),
    "ablated rollouts, float32": lambda: ablated_rollouts(torch.float32),
    "ordered Schur, n = 64": lambda: schur(64),
    "ordered Schur, n = 128": lambda: schur(128),
    "ordered Schur, n = 256": lambda: schur(256),
    "tensor cosine, width 64": lambda: tensor_cosine(64),
    "tensor cosine, width 128": lambda: tensor_cosine(128),
    "tensor cosine, width 256": lambda: tensor_cosine(256),
    "tensor cosine, width 512": lambda: tensor_cosine(512),
    "tensor cosine, width 1024": lambda: tensor_cosine(1024),
    "tensor cosine, width 32, 2 layers, exact": lambda: tensor_cosine(32, 2),
    "tensor cosine, width 64, 2 layers, exact": lambda: tensor_cosine(64, 2),
    "tensor cosine, width 64, 2 layers": lambda: tensor_cosine(64, 2, "closure", ("Monte Carlo", "one layer")),
    "tensor cosine, width 64, 3 layers": lambda: tensor_cosine(64, 3, "closure", ("Monte Carlo", "one layer")),
    "tensor cosine, width 64, 4 layers": lambda: tensor_cosine(64, 4, "closure", ("Monte Carlo", "one layer")),
    # beyond, a few samples see nothing of the tails, and what drawing costs cannot be told from them
    "tensor cosine, width 64, 6 layers": lambda: tensor_cosine(64, 6, "closure", ("one layer",)),
    "tensor cosine, width 64, 8 layers": lambda: tensor_cosine(64, 8, "closure", ("one layer",)),
}


def agree(contestants, rtol):
    """A peer that computes something else is no peer."""
    results = {name: [np.asarray(each) for each in run()] for name, run in contestants.items()}
    for name, arrays in results.items():
        for own, other in zip(results["tasksym"], arrays, strict=True):
            assert np.linalg.norm(own - other) <= rtol * np.linalg.norm(own), f"{name} computes something else"


def race(contestants, rounds):
    """Seconds of every contestant (round,), taking turns."""
    seconds = {name: [] for name in contestants}
    for _ in range(WARM_UP + rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append((time.perf_counter() - start) * getattr(run, "times", 1))
    return {name: np.array(values[WARM_UP:]) for name, values in seconds.items()}


def ratios(name, seconds):
    """One row a peer. Where a peer does less than we do, the ratio is the other way round."""
    for peer, theirs in seconds.items():
        if peer != "tasksym":
            slower = peer in LESS
            ratio = seconds["tasksym"] / theirs if slower else theirs / seconds["tasksym"]
            low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
            yield {
                "race": name,
                "against": peer,
                "ours (ms)": 1e3 * np.median(seconds["tasksym"]),
                "theirs (ms)": 1e3 * np.median(theirs),
                "reads": "times as long" if slower else "times as fast",
                "ratio": middle,
                "quartiles": f"{low:.2f}–{high:.2f}",
            }


def machine():
    cpuinfo = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    processor = named.group(1) if named else platform.processor() or platform.machine()
    return f"{processor}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def profile(contestants, calls=20):
    """Where our own time goes: the functions with most time of their own."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(calls):
        contestants["tasksym"]()
    profiler.disable()
    stats = pstats.Stats(profiler)
    for (_, _, function), (_, count, own, _, _) in sorted(stats.stats.items(), key=lambda item: -item[1][2])[:8]:
        print(f"  {own / stats.total_tt:4.0%}  {count / calls:7.0f} calls  {function}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="at least 7")
    parser.add_argument("--only", default="", metavar="TEXT", help="races whose name has this; other results are kept")
    parser.add_argument("--profile", action="store_true", help="show where our own time goes instead")
    arguments = parser.parse_args()
    if arguments.rounds < 7:
        parser.error("a median of fewer than 7 rounds says little")
    races = {name: contestants for name, contestants in RACES.items() if arguments.only in name}
    if not races:
        parser.error(f"no race has {arguments.only!r} in its name")
    if not ENVIRONMENT.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})
    torch.set_num_threads(1)
    if arguments.profile:
        for name, contestants in races.items():
            print(name)
            profile(contestants())
        return
    rows = [
        row
        for name, contestants in tqdm(races.items(), desc="races", leave=False)
        for row in ratios(name, race(contestants(), arguments.rounds))
    ]
    table = pd.DataFrame(rows)
    print(machine(), f"one thread, {arguments.rounds} rounds", sep=", ")
    print(table.to_string(index=False, float_format="{:.2f}".format))
    if jax is None:
        print("JAX did not run: it is not installed (pip install jax)")
    date = datetime.date.today().isoformat()
    kept = json.loads(RESULTS.read_text()) if arguments.only and RESULTS.exists() else {}
    results = kept | {
        f"{row['race']}, against {row['against']}": {"ratio": row["ratio"], "machine": machine(), "date": date}
        for row in rows
    }
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
