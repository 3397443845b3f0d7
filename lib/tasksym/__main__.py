"""python -m tasksym diagnose: what in the recurrent matrix of a stored network can go?"""

from __future__ import annotations

import argparse
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from tasksym.diagnosis import diagnose
from tasksym.foreign import ACTIVATIONS
from tasksym.nulls import DRAWS

SCORES: dict[str, Callable[[np.ndarray, np.ndarray], float] | None] = {
    "none": None,
    "sign": lambda outputs, targets: float((np.sign(outputs) == np.sign(targets)).mean()),
    "argmax": lambda outputs, targets: float((outputs.argmax(axis=-1) == targets.argmax(axis=-1)).mean()),
}
MEGABYTES = 1024  # largest file that is read, unless told otherwise
TEACH = """\
WEIGHTS holds one network under the names W_hh (hidden, hidden), W_xh (hidden, in), W_hy (out, hidden), and b_h and
b_y if it has biases; or a PyTorch state_dict with weight_hh_l0, weight_ih_l0 and so on, and a readout's weight.
TRIALS holds inputs, and targets if there are any, both (time, trial, channel); mask (time,) selects the steps that
count, for the score as well.

Both may be .npz, .safetensors or .pt files. Nothing in them is executed: pickled objects are refused.

examples:
  python -m tasksym diagnose weights.npz trials.npz
  python -m tasksym diagnose model.pt trials.npz --batch-first --score argmax --report report.html
  python -m tasksym diagnose leaky.safetensors trials.npz --leak 0.2

A verdict has two words. The first says what a removal does: harmless, degrading or destructive. The second compares
it with random cuts of the same mass: below, as or above chance. What is "harmless, below chance" can go although such
cuts do more harm; whether they do much is told beside it.

exit codes: 0 done, 2 something is wrong with the input (the message says what), 130 interrupted
"""


class InputError(Exception):
    """A file that cannot be read; the message is for the user."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        weights, trials = (read(path, options.max_megabytes) for path in (options.weights, options.trials))
        diagnosis = diagnose(
            weights,
            trials,
            alpha=options.alpha,
            score=SCORES[options.score],
            leak=options.leak,
            activation=options.activation,
            batch_first=options.batch_first,
            draws=options.draws,
            rng=options.seed,
            name=options.name or options.weights.name,
            progress=sys.stderr.isatty() and not options.quiet,
        )
        print(diagnosis.summary)
        if options.report:
            diagnosis.report(options.report)
            print(f"Report: {options.report}")
    except (InputError, TypeError, ValueError, OSError) as error:
        print(f"tasksym: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tasksym: interrupted", file=sys.stderr)
        return 130
    return 0


def read(path: Path, max_megabytes: float = MEGABYTES) -> Mapping:
    """Arrays by name from a .npz, .safetensors or .pt file, of which nothing is executed.

    Raises
    ------
    InputError
        If the file is missing, too large, of another kind, damaged, or holds anything but arrays.
    """
    if path.suffix not in READERS:
        raise InputError(f"{path}: the name must end in {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if (size := path.stat().st_size / 1e6) > max_megabytes:
        raise InputError(f"{path}: {size:.0f} MB, over the limit of {max_megabytes:g}; raise it by --max-megabytes")
    try:
        return READERS[path.suffix](path, max_megabytes)
    except InputError:
        raise
    except Exception as error:  # of a damaged file torch's unpickler raises whatever its bytes lead it to
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(f"{path}: cannot be read ({reason})") from error


def _npz(path: Path, max_megabytes: float) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:  # a small file can unpack to a large one
        if (size := sum(member.file_size for member in archive.infolist()) / 1e6) > max_megabytes:
            raise InputError(f"{path}: {size:.0f} MB unpacked, over the limit of {max_megabytes:g}")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _pt(path: Path, max_megabytes: float) -> Mapping:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the age of a file; if it cannot be read, the error says so
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(loaded, Mapping):
        raise InputError(f"{path}: must hold a mapping of tensors such as a state_dict, got {type(loaded).__name__}")
    return loaded


READERS: dict[str, Callable[[Path, float], Mapping]] = {
    ".npz": _npz,
    ".safetensors": lambda path, max_megabytes: safetensors.torch.load_file(path),
    ".pt": _pt,
    ".pth": _pt,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tasksym", description=__doc__.split(": ", 1)[1])
    commands = parser.add_subparsers(title="commands", required=True, metavar="diagnose")
    command = commands.add_parser(
        "diagnose",
        help="say which couplings of a network can go",
        description="Say which couplings of a network's recurrent matrix can go, on some trials.",
        epilog=TEACH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("weights", type=Path, help="the network: .npz, .safetensors or .pt")
    add("trials", type=Path, help="its trials: the same kinds")
    add("--report", type=Path, metavar="FILE", help="write a self-contained HTML report")
    add("--alpha", type=float, default=0.9, help="least eigenvalue modulus that leads (default %(default)s)")
    add("--score", choices=SCORES, default="none", help="right signs, or right largest channels (default %(default)s)")
    add("--leak", type=float, default=1.0, metavar="A", help="a of h = (1 - a) h + a f(...) (default %(default)s)")
    add("--activation", choices=ACTIVATIONS, default="tanh", help="f (default %(default)s)")
    add("--batch-first", action="store_true", help="arrays are (trial, time, channel)")
    add("--draws", type=int, default=DRAWS, help="random cuts for each coupling (default %(default)s)")
    add("--seed", type=int, default=0, help="of the random cuts (default %(default)s)")
    add("--name", help="what to call the network (default: the file's name)")
    add("--max-megabytes", type=float, default=MEGABYTES, help="largest file to read (default %(default)s)")
    add("--quiet", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
