"""Does an ablation that costs nothing leave the states alone, or only keep out of the readout's sight?

And what an ablation costs once the decoder, the encoder or the norm of W has been put right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.optimize
import torch
from tqdm import tqdm

from tasksym import _checks
from tasksym.ablation import trials_of
from tasksym.gradient import loss
from tasksym.metrics import fvu
from tasksym.networks import TanhRNN
from tasksym.schur import ordered_schur
from tasksym.sectors import COUPLINGS
from tasksym.training import Solutions
from tasksym.trials import Trials

READINGS = ("inert", "output-null", "seen")
REPAIRS = ("none", "decoder", "encoder", "norm")
FIT_SEED = 20_261  # of the trials that refits see, which are never those that judge
ENCODER_ITERATIONS = 100


def readout_confound(
    solutions: Solutions, trials: Trials | None = None, alpha: float = 0.9, tolerance: float = 0.01
) -> pd.DataFrame:
    """How far each ablation moves the states, how far the outputs, and how much of the first the decoder can see.

    Parameters
    ----------
    solutions : Solutions
    trials, alpha
        As for `ablation_profile`.
    tolerance : float
        Relative deviation up to which something counts as unmoved.

    Returns
    -------
    DataFrame
        One row a network and coupling, with the columns seed, couplings; states, the deviation ‖h̃ − h‖ / ‖h − h̄‖ over
        all steps; outputs, the same of ỹ and y over the steps that count; share, the part of ‖h̃ − h‖² over those steps
        that lies in the row space of W_hy; chance, that of a random direction, rank(W_hy) / hidden; and reading:
        "inert" where the states do not move, "output-null" where they do and the outputs do not, "seen" where both do.
        A coupling whose mass is no more than rounding has no row.

    Raises
    ------
    ValueError, TypeError
        If a setting is out of range, or the trials do not fit the networks.
    """
    trials = trials_of(solutions, trials)
    tolerance, rows = _checks.number("tolerance", tolerance, open_low=True), []
    for network, seed in enumerate(solutions.seeds):
        sectors = ordered_schur(solutions.weights.W_hh[network]).sectors(alpha)
        seen = scipy.linalg.orth(solutions.weights.W_hy[network].double().numpy().T)
        h, y = _rollout(solutions.weights.variants(network, sectors.schur.W[None]), trials)
        for coupling in COUPLINGS:
            if sectors.mass[coupling] <= sectors.mass_floor:
                continue
            ablated = solutions.weights.variants(network, sectors.ablate(coupling)[None])
            moved, out = (after - before for after, before in zip(_rollout(ablated, trials), (h, y), strict=True))
            states, outputs = _relative(moved, h), _relative(out[trials.mask], y[trials.mask])
            judged = np.linalg.norm(moved[trials.mask])
            share = (np.linalg.norm(moved[trials.mask] @ seen) / judged) ** 2 if judged > 0 else np.nan
            reading = READINGS[0 if states <= tolerance else 1 if outputs <= tolerance else 2]
            rows.append((seed, coupling, states, outputs, share, seen.shape[1] / len(seen), reading))
    return pd.DataFrame(rows, columns=["seed", "couplings", "states", "outputs", "share", "chance", "reading"])


def repairs(
    solutions: Solutions,
    trials: Trials | None = None,
    alpha: float = 0.9,
    *,
    kinds: Iterable[str] = REPAIRS,
    progress: bool = True,
) -> pd.DataFrame:
    """What an ablation costs after a part of the network was put right.

    Parameters
    ----------
    solutions : Solutions
    trials, alpha
        As for `ablation_profile`.
    kinds : iterable of str
        "none"; "decoder", refitted by least squares (`refit_decoder`); "encoder", trained again around the ablated
        matrix (`refit_encoder`); "norm", the ablated matrix scaled to the norm that W had.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    DataFrame
        One row a network, coupling and kind, with the columns seed, couplings ("" for the whole network, which is
        repaired as well: what it gains is not due to the ablation), repair, fvu and score. A coupling whose mass is no
        more than rounding has no rows.

    Raises
    ------
    ValueError, TypeError
        If a kind is unknown, or a setting is out of range.
    """
    trials, kinds, rows = trials_of(solutions, trials), list(kinds), []
    if unknown := [kind for kind in kinds if kind not in REPAIRS]:
        raise ValueError(f"kinds must be among {', '.join(REPAIRS)}; got {unknown[0]!r}")
    fit = solutions.recipe.task.sample(256, rng=FIT_SEED)
    splits = [ordered_schur(W).sectors(alpha) for W in solutions.weights.W_hh]
    there = [["", *(c for c in COUPLINGS if split.mass[c] > split.mass_floor)] for split in splits]
    switch = {} if progress else {"disable": True}  # absent, so that TQDM_DISABLE keeps its say
    with tqdm(total=sum(map(len, there)), unit="ablation", leave=False, **switch) as bar:
        for network, (seed, sectors) in enumerate(zip(solutions.seeds, splits, strict=True)):
            for coupling in there[network]:
                ablated = solutions.weights.variants(network, sectors.ablate(coupling)[None])
                for kind in kinds:
                    outputs = _repaired(ablated, kind, sectors.schur.W, fit).outputs(trials.inputs).numpy()
                    score = solutions.recipe.task.score(outputs, trials)
                    rows.append((seed, coupling, kind, fvu(outputs, trials)[0], score[0]))
                bar.update()
    return pd.DataFrame(rows, columns=["seed", "couplings", "repair", "fvu", "score"])


def refit_decoder(networks: TanhRNN, trials: Trials) -> TanhRNN:
    """The same networks with the decoder that is best for their states, in the sense of least squares.

    Parameters
    ----------
    networks : TanhRNN
    trials : Trials
        To fit by; judge by others.
    """
    targets = torch.as_tensor(trials.targets[trials.mask], dtype=networks.W_hy.dtype).flatten(0, 1)
    states = networks.rollout(trials.inputs)[0][:, trials.mask].flatten(1, 2)
    # Of least norm, since a state space that an ablation has emptied in part has no unique solution.
    fitted = torch.linalg.lstsq(states, targets.expand(len(networks), -1, -1), driver="gelsd").solution
    return replace(networks, W_hy=fitted.mT.contiguous())


def refit_encoder(networks: TanhRNN, trials: Trials, iterations: int = ENCODER_ITERATIONS) -> TanhRNN:
    """The same networks with their encoders trained again by L-BFGS, recurrent matrix and decoder fixed.

    Parameters
    ----------
    networks : TanhRNN
    trials : Trials
        To fit by; judge by others.
    iterations : int
        At most.
    """
    iterations = _checks.count("iterations", iterations)
    networks = networks.to(torch.float64)
    inputs, targets = (torch.as_tensor(array, dtype=torch.float64)[None] for array in (trials.inputs, trials.targets))
    fitted = []
    for network in range(len(networks)):
        alone = TanhRNN(networks.W_xh[[network]], networks.W_hh[[network]], networks.W_hy[[network]])

        def error(flat: np.ndarray, alone: TanhRNN = alone) -> tuple[float, np.ndarray]:
            W_xh = torch.tensor(flat.reshape(alone.W_xh.shape), requires_grad=True)
            value = loss(replace(alone, W_xh=W_xh), inputs, targets, trials.mask)
            value.backward(torch.ones_like(value))
            return value.item(), W_xh.grad.numpy().ravel()

        start = alone.W_xh.numpy().ravel()
        found = scipy.optimize.minimize(error, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
        fitted.append(torch.tensor(found.x.reshape(alone.W_xh.shape)))
    return replace(networks, W_xh=torch.cat(fitted))


def _repaired(ablated: TanhRNN, kind: str, W: np.ndarray, fit: Trials) -> TanhRNN:
    if kind == "decoder":
        return refit_decoder(ablated, fit)
    if kind == "encoder":
        return refit_encoder(ablated, fit)
    if kind == "norm":
        return replace(ablated, W_hh=ablated.W_hh * (np.linalg.norm(W) / torch.linalg.norm(ablated.W_hh)))
    return ablated


@torch.no_grad()
def _rollout(networks: TanhRNN, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
    """States (time, trial, hidden) and outputs (time, trial, out) of one network."""
    states, outputs = networks.rollout(trials.inputs)
    return states[0].numpy(), outputs[0].numpy()


def _relative(moved: np.ndarray, whole: np.ndarray) -> float:
    """Size of a deviation relative to how much the whole varies over steps and trials."""
    return float(np.linalg.norm(moved) / np.linalg.norm(whole - whole.mean(axis=(0, 1))))
