"""What one step does to a small deviation: the network near a state, rather than near h = 0."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import torch

from tasksym import _checks
from tasksym.networks import TanhRNN

RESIDUAL = 1e-9  # largest |tanh(W_xh x + W_hh h) - h| of what is returned as a fixed point


def jacobians(W_hh, states) -> np.ndarray:
    """∂h_t/∂h_{t-1} = diag(1 − h_t²) W_hh, which is W_hh itself at h_t = 0.

    Parameters
    ----------
    W_hh : array or Tensor (..., hidden, hidden)
    states : array or Tensor (..., hidden)
        States h_t. Leading axes count networks, steps or trials, and broadcast.

    Returns
    -------
    array (..., hidden, hidden), float64

    Raises
    ------
    TypeError, ValueError
        If an array is not real and finite, or shapes do not fit.
    """
    W_hh = _checks.real_array("W_hh", W_hh).astype(np.float64)
    states = _checks.real_array("states", states).astype(np.float64)
    if W_hh.ndim < 2 or states.ndim < 1 or W_hh.shape[-2:] != 2 * states.shape[-1:]:
        raise ValueError(
            f"W_hh must be (..., hidden, hidden) and states (..., hidden), got {W_hh.shape} and {states.shape}"
        )
    return (1 - states**2)[..., None] * W_hh


@torch.no_grad()
def trajectory_spectrum(networks: TanhRNN, network: int, inputs) -> np.ndarray:
    """Moduli of the eigenvalues of `jacobians` along a network's own trajectories, the largest first.

    W_hh alone is the step of a network at rest. A saturated unit, h_t² near 1, passes little on, so that the network
    in use can have slow directions that W_hh lacks, or lack some that it has.

    Parameters
    ----------
    networks : TanhRNN
    network : int
        Which of them.
    inputs : array (time, trial, in)

    Returns
    -------
    array (time, trial, hidden), float64
    """
    W_hh = networks.W_hh[network].double().numpy()
    states = networks.variants(network, W_hh[None]).rollout(inputs)[0][0].numpy()
    moduli = np.abs(np.linalg.eigvals(jacobians(W_hh, states)))
    return -np.sort(-moduli, axis=-1)


def fixed_point(networks: TanhRNN, network: int, constant, near) -> np.ndarray:
    """A state that a constant input leaves where it is, whether or not it is stable, by Powell's hybrid method.

    Parameters
    ----------
    networks : TanhRNN
    network : int
        Which of them.
    constant : array (in,)
        The input, the same at every step.
    near : array (hidden,)
        Where the search starts. A network can have several fixed points; which is found depends on it.

    Returns
    -------
    array (hidden,), float64

    Raises
    ------
    RuntimeError
        If the search ends elsewhere than in a fixed point.
    """
    W_xh, W_hh = (matrix[network].double().numpy() for matrix in (networks.W_xh, networks.W_hh))
    drive = W_xh @ np.asarray(constant, dtype=np.float64)
    identity = np.eye(len(W_hh))

    def moved(h):
        return np.tanh(drive + W_hh @ h) - h

    def slope(h):
        return jacobians(W_hh, np.tanh(drive + W_hh @ h)) - identity

    found = scipy.optimize.root(moved, np.asarray(near, dtype=np.float64), jac=slope, tol=1e-12).x
    if not (residual := np.abs(moved(found)).max()) <= RESIDUAL:
        raise RuntimeError(f"no fixed point found: a step still moves the state by {residual:.1e}; start elsewhere")
    return found
