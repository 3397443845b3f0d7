"""Compute what a study ships, a table or trained networks, write it, and beside it where it is from."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
import torch
from safetensors.torch import save_file
from tqdm import tqdm

import tasksym as ts
from tasksym.references import REFERENCE_FOLDER

FOLDER = Path(__file__).parent


def compute(measure: Callable[..., pd.DataFrame], jobs: list[tuple], workers: int | None = None) -> pd.DataFrame:
    """The tables of all jobs, one below the other in their order; jobs run side by side, one thread each."""
    with ProcessPoolExecutor(workers, initializer=_one_quiet_thread) as pool:
        tables = pool.map(partial(_call, measure), jobs)
        return pd.concat(tqdm(tables, total=len(jobs), unit="job"), ignore_index=True)


def write(study: str, table: pd.DataFrame, families: list[str] = (), **facts) -> None:
    """Store a table with five significant digits, and its provenance under the same name.

    Families are those of the reference networks that the table was computed from.
    """
    table.to_csv(FOLDER / f"{study}.csv", index=False, float_format="%.5g", lineterminator="\n")
    if families:
        facts |= {
            "recipes": {name: repr(ts.RECIPES[name]) for name in families},
            "networks": {name: checksum(name) for name in families},
            "seeds": list(ts.REFERENCE_SEEDS),
        }
    _provenance(study, facts)


def write_networks(study: str, tensors: dict[str, torch.Tensor], **facts) -> None:
    """Store trained weights, and their provenance under the same name."""
    save_file(
        {name: tensor.detach().contiguous() for name, tensor in tensors.items()}, FOLDER / f"{study}.safetensors"
    )
    _provenance(study, facts)


def _provenance(study: str, facts: dict) -> None:
    facts = facts | {
        "versions": {each.__name__: each.__version__ for each in (np, scipy, torch)},
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
    }
    text = json.dumps(facts, indent=1, sort_keys=True)
    (FOLDER / f"{study}.json").write_text(text + "\n", encoding="utf-8")


def checksum(name: str) -> str:
    """Of the file of networks that a family's rows were computed from."""
    return hashlib.sha256((REFERENCE_FOLDER / f"{name}.safetensors").read_bytes()).hexdigest()[:16]


def _call(measure: Callable[..., pd.DataFrame], job: tuple) -> pd.DataFrame:
    return measure(*job)


def _one_quiet_thread() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ts.SplitWarning)  # half of the dense copy networks; the pages say so
