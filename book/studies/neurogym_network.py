"""A network that knows nothing of this package: a torch.nn.RNN, trained on a task of NeuroGym by cross-entropy.

python book/studies/neurogym_network.py writes neurogym_network.safetensors, the network's state_dict beside evaluation
trials, and neurogym_network.json, in about a minute on one core. It needs NeuroGym (pip install -e .[peers]), which
asks for older releases of NumPy and Matplotlib than the lock has: give it an environment of its own.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

FILE = Path(__file__).with_suffix(".safetensors")
TASK = "PerceptualDecisionMaking-v0"
SEED, EVALUATION_SEED = 0, 1
HIDDEN, TRIALS = 64, 256
STEPS, BATCH, IN_A_ROW, LEARNING_RATE = 2000, 16, 5, 1e-3


class Net(nn.Module):
    """As NeuroGym's tutorials write it."""

    def __init__(self, inputs: int, actions: int):
        super().__init__()
        self.rnn = nn.RNN(inputs, HIDDEN)
        self.fc = nn.Linear(HIDDEN, actions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.rnn(x)[0])


def sample(trials: int, seed: int | None = None, env=None) -> tuple[torch.Tensor, torch.Tensor]:
    """Trials of the task, as NeuroGym draws them.

    Returns
    -------
    inputs : Tensor (time, trial, 3)
        Fixation, and the noisy evidence for either choice.
    actions : Tensor (time, trial)
        The right one at each step: 0, to fixate, until the last, and then the choice, 1 or 2.
    """
    env = environment(seed) if env is None else env
    drawn = []
    for _ in range(trials):
        env.new_trial()
        drawn.append((env.ob.copy(), env.gt.copy()))
    inputs, actions = (np.stack(arrays, axis=1) for arrays in zip(*drawn, strict=True))
    return torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(actions.astype(np.int64))


def environment(seed: int | None):
    """NeuroGym's task, without the wrappers that Gymnasium puts around it."""
    import neurogym

    env = neurogym.make(TASK).unwrapped
    env.reset()
    env.seed(seed)
    return env


def train(steps: int = STEPS) -> tuple[Net, float]:
    """A trained network, and its loss in the last step.

    It sees some trials in a row without a reset, as in NeuroGym's Dataset, whose first trials no seed determines.
    """
    torch.manual_seed(SEED)
    env = environment(SEED)
    net = Net(env.observation_space.shape[0], int(env.action_space.n))
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    for _ in range(steps):
        inputs, actions = (
            drawn.unflatten(1, (IN_A_ROW, BATCH)).transpose(0, 1).flatten(0, 1)
            for drawn in sample(IN_A_ROW * BATCH, env=env)
        )
        loss = nn.functional.cross_entropy(net(inputs).flatten(0, 1), actions.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net, loss.item()


def main() -> None:
    if find_spec("neurogym") is None:
        print("NeuroGym is not installed: the network is left as it is.", file=sys.stderr)
        return
    torch.set_num_threads(1)
    net, loss = train()
    inputs, actions = sample(TRIALS, EVALUATION_SEED)
    save_file({**net.state_dict(), "inputs": inputs, "choice": actions[-1].to(torch.uint8)}, FILE)
    provenance = {
        "task": TASK,
        "seeds": {"training": SEED, "evaluation": EVALUATION_SEED},
        "training": {"steps": STEPS, "sequences": BATCH, "trials_in_a_row": IN_A_ROW, "learning_rate": LEARNING_RATE},
        "last_loss": float(f"{loss:.3g}"),
        "evaluation_trials": TRIALS,
        "versions": {name: version(name) for name in ("neurogym", "numpy", "torch")},
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
    }
    text = json.dumps(provenance, indent=1, sort_keys=True)
    FILE.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
