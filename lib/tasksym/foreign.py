"""Somebody else's network and trials, read into what the rest of the package takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tasksym import _checks
from tasksym.rates import ACTIVATIONS, RateRNN
from tasksym.recipes import Recipe
from tasksym.training import Solutions
from tasksym.trials import Trials

NAMES = {  # ours: those that are in use, with any prefix
    "W_hh": ("W_hh", "W_rec", "weight_hh_l0", "weight_hh"),
    "W_xh": ("W_xh", "W_in", "weight_ih_l0", "weight_ih"),
    "W_hy": ("W_hy", "W_out"),
    "b_h": ("b_h", "bias_hh_l0", "bias_ih_l0", "bias_hh", "bias_ih"),  # the biases of a step add up
    "b_y": ("b_y", "b_out"),
}
SUPPORTED = "tasksym reads networks of one layer and one direction, h = (1 − a) h + a f(W_xh x + W_hh h + b)"
GATED = f"a gated network (LSTM, GRU) has several recurrent matrices, none of which alone makes a step. {SUPPORTED}"
STACKED = f"there are several layers or directions. {SUPPORTED}"


def read_network(
    model, readout=None, *, leak: float = 1.0, activation: str | None = None, initial_state=None
) -> tuple[RateRNN, tuple[str, ...]]:
    """A network as this package runs it, and the keys that were passed over.

    Parameters
    ----------
    model : torch.nn.RNN or RNNCell, a module that holds one, a state_dict, or a mapping of arrays
        A mapping has W_hh (hidden, hidden), W_xh (hidden, in) and W_hy (out, hidden), and b_h and b_y if there are
        biases; or the keys of a state_dict, weight_hh_l0 and so on. Keys may have a prefix; see `NAMES`.
    readout : torch.nn.Linear or array (out, hidden), optional
        If absent, it is looked for in the model.
    leak : float
        a of h ← (1 − a) h + a f(…), in (0, 1].
    activation : str, optional
        Name in `ACTIVATIONS`; that of the module if absent, else tanh.
    initial_state : array (hidden,) or (trial, hidden), optional
        Zeros if absent.

    Raises
    ------
    TypeError, ValueError
        If there are several layers, two directions or gates; if a matrix is missing, not finite or of another shape
        than the others; or if the readout is missing or not unique.
    """
    leak = _checks.number("leak", leak, high=1.0, open_low=True)
    if isinstance(model, nn.Module):
        own, model = _of_module(model)
        if activation not in (None, own):
            raise ValueError(f"activation is {activation!r}, but the module says {own!r}")
        activation = own
    elif not isinstance(model, Mapping):
        raise TypeError(
            f"model must be a torch.nn.RNN, a state_dict or a mapping of arrays, got {type(model).__name__}"
        )
    activation = activation or "tanh"
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    arrays, ignored = _named(model, readout)
    hidden, outputs = arrays["W_hh"].shape[-1], len(arrays["W_hy"])
    arrays = {"b_h": np.zeros(hidden), "b_y": np.zeros(outputs), "h_0": np.zeros(hidden)} | arrays
    if initial_state is not None:
        arrays["h_0"] = _array("initial_state", initial_state)
    shapes = {"W_hh": (hidden, hidden), "W_xh": (hidden, arrays["W_xh"].shape[-1]), "W_hy": (outputs, hidden),
              "b_h": (hidden,), "b_y": (outputs,), "h_0": (*arrays["h_0"].shape[:-1][:1], hidden)}  # fmt: skip
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            called = "initial_state" if name == "h_0" else name
            raise ValueError(
                f"{called} must have shape {shape} beside a W_hh of {hidden} units, got {arrays[name].shape}"
            )
    recurrent = torch.as_tensor(arrays.pop("W_hh"))[None]  # in its own dtype, which says how exact the entries are
    rest = {name: torch.as_tensor(array, dtype=torch.float64) for name, array in arrays.items()}
    rest |= {name: rest[name][None] for name in ("W_xh", "W_hy")}
    return RateRNN(recurrent=recurrent, **rest, leak=leak, activation=activation), tuple(ignored)


def read_trials(trials, *, batch_first: bool = False) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Inputs (time, trial, in), targets (time, trial, out) or None, and mask (time,).

    Parameters
    ----------
    trials : Trials, arrays, mapping or callable
        Inputs alone; or inputs, targets and a mask, the last or the last two of which may be absent, in a tuple or in
        a mapping with these names; or a callable without arguments that returns one of these. Arrays or tensors.
    batch_first : bool
        Whether arrays have the axes (trial, time, channel) rather than (time, trial, channel).

    Raises
    ------
    TypeError, ValueError
        If there is nothing of the kind, or an array has other axes or an entry that is not finite.
    """
    if callable(trials):
        trials = trials()
    if isinstance(trials, Trials):
        return trials.inputs, trials.targets, trials.mask
    if isinstance(trials, Mapping):
        if unknown := [key for key in trials if key not in ("inputs", "targets", "mask")]:
            raise ValueError(f"trials have inputs, targets and mask; got {unknown[0]!r}")
        if "inputs" not in trials:
            raise ValueError("trials must have inputs, got none")
        trials = tuple(trials.get(key) for key in ("inputs", "targets", "mask"))
    elif isinstance(trials, (np.ndarray, Tensor)):
        trials = (trials,)
    if not isinstance(trials, (tuple, list)) or not 1 <= len(trials) <= 3:
        raise TypeError(
            "trials must be inputs, (inputs, targets), (inputs, targets, mask), a mapping of these or a callable that "
            f"returns them; got {type(trials).__name__}"
        )
    inputs, targets, mask = (*trials, None, None)[:3]
    axes = "(trial, time, channel)" if batch_first else "(time, trial, channel)"
    read = []
    for name, array in (("inputs", inputs), ("targets", targets)):
        if array is not None:
            array = _array(name, array)
            if array.ndim != 3 or 0 in array.shape:
                raise ValueError(f"{name} must have the axes {axes}, none empty; got shape {array.shape}")
            array = array.swapaxes(0, 1) if batch_first else array
        read.append(array)
    if mask is None:
        mask = np.ones(len(read[0]), dtype=bool)
    return *read, np.asarray(mask.cpu() if isinstance(mask, Tensor) else mask)


def solutions_of(network: RateRNN, trials, score=None, *, batch_first: bool = False) -> Solutions:
    """A network and its trials as a family of one, which the tables of this package take.

    Parameters
    ----------
    network : RateRNN
    trials, batch_first
        As for `read_trials`. Without targets the whole network's own outputs are the targets.
    score : callable, optional
        From outputs and targets, NumPy arrays with the axes of the arrays given, at the steps that count, to a number
        in [0, 1]. If absent, every score is 1, so that words hang on the FVU alone.
    """
    inputs, targets, mask = read_trials(trials, batch_first=batch_first)
    wanted = network.W_xh.shape[2]
    if inputs.shape[2] != wanted:
        raise ValueError(f"inputs must have {wanted} channels, as W_xh has columns; got shape {inputs.shape}")
    if network.h_0.ndim == 2 and len(network.h_0) != inputs.shape[1]:
        raise ValueError(f"initial_state is of {len(network.h_0)} trials, but inputs are of {inputs.shape[1]}")
    if own := targets is None:
        targets = network.outputs(inputs)[0].numpy()
    if targets.shape[2] != network.W_hy.shape[1]:
        raise ValueError(
            f"targets must have {network.W_hy.shape[1]} channels, as the readout has rows; got {targets.shape[2]}"
        )
    task = GivenTrials(Trials(inputs, targets, mask), score, batch_first, own)
    recipe = Recipe(task, hidden=network.W_xh.shape[1])
    return Solutions(recipe, (0,), network, torch.zeros(1, 1))


@dataclass(frozen=True, eq=False)
class GivenTrials:
    """A task that is known by some trials of it and a score."""

    trials: Trials
    scorer: Callable[[np.ndarray, np.ndarray], float] | None
    batch_first: bool = False
    own: bool = False  # whether the targets are the network's own outputs

    @property
    def inputs(self) -> int:
        """Channels."""
        return self.trials.inputs.shape[2]

    @property
    def outputs(self) -> int:
        """Channels."""
        return self.trials.targets.shape[2]

    def sample(self, trials: int, rng) -> Trials:
        """The trials that there are, whatever is asked for."""
        return self.trials

    def score(self, outputs, trials: Trials) -> np.ndarray:
        """The user's score of every variant (...,) over the steps that count, or ones."""
        outputs = np.asarray(outputs)[..., trials.mask, :, :]
        if self.scorer is None:
            return np.ones(outputs.shape[:-3])
        scores, targets = np.empty(outputs.shape[:-3]), trials.targets[trials.mask]
        targets = targets.swapaxes(0, 1) if self.batch_first else targets
        for variant in np.ndindex(scores.shape):
            answer = outputs[variant].swapaxes(0, 1) if self.batch_first else outputs[variant]
            scores[variant] = _checks.number("score(outputs, targets)", float(self.scorer(answer, targets)), high=1.0)
        return scores


def _of_module(model: nn.Module) -> tuple[str, dict[str, Tensor]]:
    """Activation and state_dict of a module that is, or holds, one plain recurrent layer."""
    recurrent = [module for module in model.modules() if isinstance(module, (nn.RNNBase, nn.RNNCellBase))]
    for module in recurrent:
        if isinstance(module, (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell)):
            raise TypeError(f"{type(module).__name__} is not supported: {GATED}")
    if len(recurrent) != 1:
        raise TypeError(f"model must hold one torch.nn.RNN, but has {len(recurrent)}; pass its state_dict or arrays")
    (module,) = recurrent
    if getattr(module, "num_layers", 1) > 1 or getattr(module, "bidirectional", False):
        raise TypeError(STACKED)
    return module.nonlinearity, model.state_dict()


def _named(model: Mapping, readout) -> tuple[dict[str, np.ndarray], list[str]]:
    """Arrays under our names, and the keys that mean nothing to us."""
    found: dict[str, np.ndarray] = {}
    left = {}
    for key, value in model.items():
        last = str(key).rsplit(".", 1)[-1]
        if last.endswith("_reverse") or last.endswith("_l1"):
            raise ValueError(f"{key}: {STACKED}")
        ours = next((name for name, theirs in NAMES.items() if last in theirs), None)
        if ours is None:
            left[str(key)] = value
            continue
        array = _array(str(key), value)
        if ours != "b_h" and ours in found:
            raise ValueError(f"{key} is a second {ours}; pass one network, as {{'W_hh': …, 'W_xh': …, 'W_hy': …}}")
        found[ours] = array if ours not in found else found[ours].astype(np.float64) + array
    if missing := [name for name in ("W_hh", "W_xh") if name not in found]:
        raise ValueError(
            f"model must have {' or '.join(NAMES[missing[0]])}; got the keys {', '.join(map(str, model))}"
        )
    rows, hidden = found["W_hh"].shape if found["W_hh"].ndim == 2 else (0, 0)
    if hidden == 0 or rows % hidden or rows // hidden not in (1, 3, 4):
        raise ValueError(f"W_hh must be square, got shape {found['W_hh'].shape}")
    if rows > hidden:
        raise ValueError(f"W_hh has {rows // hidden} blocks of {hidden} rows: {GATED}")
    return found | _readout(found, left, readout, hidden), list(left)


def _readout(found: dict, left: dict, readout, hidden: int) -> dict[str, np.ndarray]:
    """W_hy, and b_y if there is one: as given, or what in the rest of a model fits; takes it out of `left`."""
    if readout is not None:
        if isinstance(readout, nn.Linear):
            given = {"W_hy": _array("readout.weight", readout.weight)}
            given |= {} if readout.bias is None else {"b_y": _array("readout.bias", readout.bias)}
        else:
            given = {"W_hy": _array("readout", readout)}
        for key in [key for key, value in left.items() if any(_equal(value, array) for array in given.values())]:
            del left[key]  # the model's own readout
        return given
    if "W_hy" in found:
        return {}
    fits = [key for key, value in left.items() if getattr(value, "ndim", 0) == 2 and value.shape[1] == hidden]
    if len(fits) != 1:
        seen = f"several matrices could be it: {', '.join(fits)}" if fits else "no matrix of the model could be it"
        raise ValueError(f"a readout is needed, and {seen}; pass readout=torch.nn.Linear or an array (out, {hidden})")
    weight = _array(fits[0], left.pop(fits[0]))
    bias = left.pop(fits[0].removesuffix("weight") + "bias", None)
    return {"W_hy": weight} | ({} if bias is None else {"b_y": _array(fits[0], bias)})


def _equal(value, array: np.ndarray) -> bool:
    real = isinstance(value, Tensor) and value.is_floating_point()
    return real and torch.equal(value.detach().cpu().double(), torch.from_numpy(array).double())


def _array(name: str, value) -> np.ndarray:
    """A real, finite array; half precision becomes single."""
    if isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        value = value.float()
    return _checks.real_array(name, value)
