"""Training: a recipe and a seed determine a network; what was trained once is kept."""

from __future__ import annotations

import hashlib
import inspect
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from tasksym import _checks
from tasksym.gradient import MaskedSquaredError
from tasksym.networks import TanhRNN
from tasksym.recipes import PARAMETRISATIONS, RECIPES, STARTS, Recipe
from tasksym.store import Store, StoreError, read, write

WIDTH = 4  # networks trained together: rounding depends on it, so that every batch is padded to it
LOSS_WINDOW = 25  # steps that one entry of `Solutions.loss` averages
PARAMETERS = ("W_xh", "recurrent", "W_hy")  # what is trained; W_hh is made from the second as the recipe says


@dataclass(frozen=True, eq=False)
class Solutions:
    """Networks trained by one recipe.

    Parameters
    ----------
    recipe : Recipe
    seeds : tuple of int (network,)
    weights : TanhRNN
        The trained ensemble.
    loss : Tensor (network, window)
        Training loss, averaged over windows of `LOSS_WINDOW` steps.
    """

    recipe: Recipe
    seeds: tuple[int, ...]
    weights: TanhRNN
    loss: Tensor

    def __len__(self) -> int:
        return len(self.seeds)

    def of(self, seeds: Iterable[int]) -> Solutions:
        """The networks of some of the seeds, in the order asked for.

        Raises
        ------
        ValueError
            If there is no network of a seed.
        """
        seeds = _seeds(seeds)
        if unknown := [seed for seed in seeds if seed not in self.seeds]:
            raise ValueError(f"no network has seed {unknown[0]}; there are {', '.join(map(str, self.seeds))}")
        rows = [self.seeds.index(seed) for seed in seeds]
        weights = TanhRNN(*(getattr(self.weights, field.name)[rows] for field in fields(TanhRNN)))
        return Solutions(self.recipe, seeds, weights, self.loss[rows])


def solve(recipe: Recipe, seeds: Iterable[int], *, store: Store | None = None, progress: bool = True) -> Solutions:
    """Train one network a seed, or find it in the store.

    A seed's result does not depend on which other seeds are asked for. torch runs on one thread meanwhile, since
    small matrices lose with two; the setting is restored. Training can be interrupted: finished networks are kept.

    Parameters
    ----------
    recipe : Recipe
    seeds : iterable of int
        Distinct, at least one.
    store : Store, optional
        Where trained networks are kept; the default folder if absent.
    progress : bool
        Show a progress bar on stderr while training.

    Returns
    -------
    Solutions
        In the order of `seeds`.

    Raises
    ------
    TypeError, ValueError
        If `recipe` is not a Recipe, or seeds are missing, negative or repeated.
    FloatingPointError
        If a network diverges; the message names its seed and step.
    StoreError
        If networks must be trained and the store cannot be written.
    """
    if not isinstance(recipe, Recipe):
        hint = f"; did you mean RECIPES[{recipe!r}]?" if isinstance(recipe, str) and recipe in RECIPES else ""
        raise TypeError(f"recipe must be a Recipe, got {recipe!r}{hint}")
    seeds = _seeds(seeds)
    tensors = trained_parameters(recipe, seeds, store=store, progress=progress)
    return Solutions(recipe, seeds, networks_of(recipe, tensors), tensors["loss"])


def trained_parameters(
    recipe: Recipe, seeds: tuple[int, ...], *, store: Store | None = None, progress: bool = True
) -> dict[str, Tensor]:
    """What `solve` makes its networks of: the `PARAMETERS` of every seed and its loss, each (network, …)."""
    store = Store() if store is None else store
    found = {seed: _find(recipe, seed, store) for seed in seeds}
    if missing := [seed for seed in seeds if found[seed] is None]:
        switch = {} if progress else {"disable": True}  # absent, so that TQDM_DISABLE keeps its say
        with tqdm(total=len(missing) * recipe.steps, unit="step", leave=False, **switch) as bar, one_thread():
            for start in range(0, len(missing), WIDTH):
                batch = missing[start : start + WIDTH]
                bar.set_description(f"training seed {', '.join(map(str, batch))}")
                found |= _solve_batch(recipe, batch, store, bar)
    return {name: torch.stack([found[seed][name] for seed in seeds]) for name in (*PARAMETERS, "loss")}


def starting_networks(recipe: Recipe, seeds: Iterable[int]) -> TanhRNN:
    """The untrained networks from which `solve` starts, in float32.

    W_xh ~ N(0, 1/in) and W_hy ~ N(0, 1/hidden); W_hh is drawn and parametrised as the recipe says.
    """
    return networks_of(recipe, _starting_parameters(recipe, _seeds(seeds)))


def networks_of(recipe: Recipe, parameters: dict[str, Tensor]) -> TanhRNN:
    """The networks that have these `PARAMETERS`."""
    W_xh, recurrent, W_hy = (parameters[name] for name in PARAMETERS)
    return TanhRNN(W_xh, PARAMETRISATIONS[recipe.parametrisation](recurrent), W_hy)


def provenance_of(recipe: Recipe) -> dict:
    """What, besides the seed, determines a trained network to the last bit."""
    source = hashlib.sha256()
    for module in ("trials", "tasks", "recipes", "networks", "gradient", "training"):
        source.update((Path(__file__).parent / f"{module}.py").read_bytes())
    source.update(inspect.getsource(type(recipe.task)).encode())  # a task of the user's own
    return {
        "recipe": repr(recipe),
        "width": WIDTH,
        "source": source.hexdigest()[:16],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
    }


def _streams(seed: int) -> list[np.random.Generator]:
    """A seed's two random streams: one for the start, one for the training data."""
    return [np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(2)]


def _seeds(seeds) -> tuple[int, ...]:
    try:
        seeds = tuple(seeds)
    except TypeError:
        raise TypeError(f"seeds must be a collection of whole numbers such as range(8), got {seeds!r}") from None
    if not seeds:
        raise ValueError("seeds must name at least one network, got none")
    seeds = tuple(_checks.count("each seed", seed, minimum=0) for seed in seeds)
    if repeated := {seed for seed in seeds if seeds.count(seed) > 1}:
        raise ValueError(f"seeds must be distinct, but {sorted(repeated)} are repeated")
    return seeds


def _starting_parameters(recipe: Recipe, seeds: Iterable[int]) -> dict[str, Tensor]:
    inputs, outputs, hidden = recipe.task.inputs, recipe.task.outputs, recipe.hidden
    starts = [
        (
            rng.normal(0.0, 1 / math.sqrt(inputs), size=(hidden, inputs)),
            STARTS[recipe.start](hidden, recipe.gain, rng),
            rng.normal(0.0, 1 / math.sqrt(hidden), size=(outputs, hidden)),
        )
        for rng, _ in map(_streams, seeds)
    ]
    stacked = (torch.tensor(np.stack(matrices), dtype=torch.float32) for matrices in zip(*starts, strict=True))
    return dict(zip(PARAMETERS, stacked, strict=True))


def _find(recipe: Recipe, seed: int, store: Store) -> dict[str, Tensor] | None:
    path = store.path(provenance_of(recipe) | {"seed": seed})
    if not path.exists():
        return None
    try:
        return read(path)[0]
    except StoreError as error:
        warnings.warn(f"{error}; the network is trained anew", stacklevel=3)
        return None


def _solve_batch(recipe: Recipe, seeds: list[int], store: Store, bar: tqdm) -> dict[int, dict[str, Tensor]]:
    """Train `seeds`, unless another process has done so while this one waited for the lock."""
    provenance = provenance_of(recipe)
    with store.lock(provenance):
        found = {seed: _find(recipe, seed, store) for seed in seeds}
        if None not in found.values():
            bar.update(len(seeds) * recipe.steps)
            return found
        trained = _train(recipe, seeds, bar)
        for seed, tensors in trained.items():
            try:
                write(store.path(provenance | {"seed": seed}), tensors, provenance | {"seed": seed})
            except OSError as error:
                warnings.warn(
                    f"seed {seed} was trained but could not be kept in {store.folder} ({error.strerror})",
                    stacklevel=4,
                )
    return trained


def _train(recipe: Recipe, seeds: list[int], bar: tqdm) -> dict[int, dict[str, Tensor]]:
    padded = seeds + [seeds[-1]] * (WIDTH - len(seeds))
    data = [stream for _, stream in map(_streams, padded)]
    parameters = {name: start.requires_grad_() for name, start in _starting_parameters(recipe, padded).items()}
    W_xh, recurrent, W_hy = parameters.values()
    parametrise = PARAMETRISATIONS[recipe.parametrisation]
    optimiser = torch.optim.Adam(parameters.values(), lr=recipe.learning_rate)
    losses = torch.zeros(WIDTH, math.ceil(recipe.steps / LOSS_WINDOW))
    counts = torch.zeros(losses.shape[1])
    for step in range(recipe.steps):
        cosine = 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
        optimiser.param_groups[0]["lr"] = recipe.learning_rate * (0.01 + 0.99 * cosine)
        optimiser.zero_grad()
        value = MaskedSquaredError.apply(W_xh, parametrise(recurrent), W_hy, *_batch(recipe, data))
        value.sum().backward()
        _clip(parameters.values(), recipe.clip)
        optimiser.step()
        losses[:, step // LOSS_WINDOW] += value.detach()
        counts[step // LOSS_WINDOW] += 1
        if not value.isfinite().all():
            seed = padded[int((~value.isfinite()).nonzero()[0])]
            raise FloatingPointError(
                f"the network with seed {seed} diverged at step {step}; a lower learning_rate than "
                f"{recipe.learning_rate:g} or a lower clip than {recipe.clip:g} may help"
            )
        bar.update(len(seeds))
    losses /= counts
    return {
        seed: {name: matrix[i].detach() for name, matrix in parameters.items()} | {"loss": losses[i]}
        for i, seed in enumerate(seeds)
    }


def _batch(recipe: Recipe, rngs: list[np.random.Generator]) -> tuple[Tensor, Tensor, Tensor]:
    """Fresh trials for every network, each from its own stream, as `MaskedSquaredError` takes them."""
    trials = [recipe.task.sample(recipe.trials, rng) for rng in rngs]
    inputs, targets, mask = (
        torch.from_numpy(np.stack([getattr(each, name) for each in trials], axis=1))
        for name in ("inputs", "targets", "mask")
    )
    return inputs.float(), targets.float(), mask[:, :, None]


def _clip(parameters: Iterable[Tensor], largest: float) -> None:
    """Scale each network's gradient, over all its parameters, to a norm of at most `largest`."""
    norm = sum(matrix.grad.square().sum(dim=(1, 2)) for matrix in parameters).sqrt()
    scale = (largest / (norm + 1e-12)).clamp(max=1.0)
    for matrix in parameters:
        matrix.grad *= scale[:, None, None]


@contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
