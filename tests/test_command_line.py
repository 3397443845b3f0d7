"""python -m tasksym diagnose: what it reads, what it prints, and what it refuses."""

import os
import pickle
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import torch

import tasksym as ts
from tasksym.__main__ import main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One network in three kinds of files, and trials of it."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    T = np.diag([0.95, 0.5, 0.3, 0.2]) + 0.5 * np.triu(np.ones((4, 4)), 1)
    weights = {"W_xh": rng.normal(size=(4, 2)), "W_hh": T, "W_hy": rng.normal(size=(1, 4))}
    np.savez(folder / "weights.npz", **weights)
    safetensors.numpy.save_file(weights, folder / "weights.safetensors")
    torch.save({name: torch.tensor(array) for name, array in weights.items()}, folder / "weights.pt")
    inputs = rng.normal(size=(15, 70, 2))
    network, _ = ts.read_network(weights)
    targets = network.variants(0, network.W_hh).outputs(inputs)[0].numpy()
    np.savez(folder / "trials.npz", inputs=inputs, targets=targets)
    np.savez(folder / "swapped.npz", inputs=inputs.swapaxes(0, 1), targets=targets.swapaxes(0, 1))
    return folder


def run(files, *arguments):
    weights, trials, *rest = arguments
    return main(["diagnose", str(files / weights), str(files / trials), "--draws", "40", *rest])


@pytest.mark.parametrize("kind", ["npz", "safetensors", "pt"])
def test_every_kind_of_file_gives_the_same_answer(files, kind, capsys):
    assert run(files, f"weights.{kind}", "trials.npz", "--name", "it") == 0
    printed = capsys.readouterr().out
    assert run(files, "weights.npz", "swapped.npz", "--batch-first", "--name", "it") == 0
    assert printed == capsys.readouterr().out
    assert printed.startswith("it\n4 hidden units") and "What can go" in printed


def test_options_reach_the_diagnosis(files, capsys):
    run(files, "weights.npz", "trials.npz", "--leak", "1", "--alpha", "0.4", "--score", "sign", "--activation", "tanh")
    printed = capsys.readouterr().out
    assert "from 0.4 up, has dimension 2" in printed and "and a score of 1." in printed


def test_a_report_is_written(files, tmp_path, capsys):
    assert run(files, "weights.npz", "trials.npz", "--report", str(tmp_path / "report.html")) == 0
    assert "weights.npz" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out.endswith(f"Report: {tmp_path / 'report.html'}\n")


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as left:
        main(["diagnose", "--help"])
    assert left.value.code == 0
    printed = capsys.readouterr().out
    for word in ("examples:", "exit codes:", "weight_hh_l0", "below chance", "--report"):
        assert word in printed


class Hostile:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["pt", "npz"])
def test_a_hostile_pickle_is_refused_and_runs_nothing(files, tmp_path, kind, capsys):
    trap = tmp_path / "sprung"
    file = tmp_path / f"hostile.{kind}"
    if kind == "pt":
        torch.save({"W_hh": Hostile(trap)}, file)
    else:
        np.savez(file, W_hh=np.array([Hostile(trap)], dtype=object))
    assert main(["diagnose", str(file), str(files / "trials.npz")]) == 2
    assert not trap.exists()
    assert "cannot be read" in capsys.readouterr().err
    if kind == "pt":  # the trap works
        torch.load(file, weights_only=False)
    else:
        np.load(file, allow_pickle=True)["W_hh"]
    assert trap.exists()


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("W_hh.npy", b"\0" * 3_000_000)


def bare_pickle(path):
    path.write_bytes(pickle.dumps({"W_hh": 1}))


BAD = {
    "no file": ("none.npz", None, [], r"there is no such file"),
    "other kind of file": ("weights.txt", lambda path: path.write_text("1"), [], r"must end in .npz, .safetensors"),
    "damaged npz": ("bad.npz", lambda path: path.write_bytes(b"PK\3\4 no"), [], r"cannot be read"),
    "empty npz": ("empty.npz", lambda path: path.write_bytes(b""), [], r"cannot be read"),
    "damaged safetensors": ("bad.safetensors", lambda path: path.write_bytes(b"\xff" * 64), [], r"cannot be read"),
    "damaged pt": ("bad.pt", lambda path: path.write_bytes(b"junk"), [], r"cannot be read"),
    "bare pickle": ("bare.pt", bare_pickle, [], r"cannot be read|must have W_hh"),
    "a tensor alone": ("one.pt", lambda path: torch.save(torch.ones(2), path), [], r"must hold a mapping of tensors"),
    "too large": ("weights.npz", None, ["--max-megabytes", "0.0001"], r"over the limit of 0.0001"),
    "too large unpacked": ("bomb.npz", bomb, ["--max-megabytes", "1"], r"3 MB unpacked, over the limit of 1"),
    "other matrices": ("other.npz", lambda path: np.savez(path, A=np.eye(2)), [], r"model must have W_hh"),
    "NaN": ("nan.npz", lambda path: np.savez(path, W_hh=np.full((2, 2), np.nan)), [], r"W_hh must be finite"),
    "alpha of zero": ("weights.npz", None, ["--alpha", "0"], r"alpha must be a finite number"),
    "leak of two": ("weights.npz", None, ["--leak", "2"], r"leak must be .* got 2"),
    "no draws": ("weights.npz", None, ["--draws", "0"], r"draws must be at least 1"),
    "no folder for the report": (
        "weights.npz",
        None,
        ["--report", "/no/such/folder/report.html"],
        r"No such file or directory",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_message_and_code_2(files, name, capsys):
    file, make, options, message = BAD[name]
    if make:
        make(files / file)
    assert run(files, file, "trials.npz", *options) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("tasksym: ") and "Traceback" not in captured.err
    assert captured.err.count("\n") == 1
    assert re.search(message, captured.err)


def test_an_interrupt_is_code_130(files, monkeypatch, capsys):
    monkeypatch.setattr("tasksym.__main__.diagnose", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(files, "weights.npz", "trials.npz") == 130
    assert capsys.readouterr().err == "tasksym: interrupted\n"


def test_it_runs_as_a_module(files):
    command = [
        sys.executable,
        "-m",
        "tasksym",
        "diagnose",
        str(files / "weights.npz"),
        str(files / "trials.npz"),
        "--draws",
        "5",
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.startswith("weights.npz\n") and ran.stderr == "", (
        "no bar without a terminal"
    )
    ran = subprocess.run([*command[:3]], capture_output=True, text=True)
    assert ran.returncode == 2 and "usage: python -m tasksym" in ran.stderr
