"""Write a study's table, and beside it where the table is from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
import torch

import tasksym as ts
from tasksym.references import REFERENCE_FOLDER

FOLDER = Path(__file__).parent


def write(study: str, table: pd.DataFrame, families: list[str], **facts) -> None:
    """Store a table with five significant digits, and its provenance under the same name."""
    provenance = facts | {
        "recipes": {name: repr(ts.RECIPES[name]) for name in families},
        "networks": {name: checksum(name) for name in families},
        "seeds": list(ts.REFERENCE_SEEDS),
        "versions": {each.__name__: each.__version__ for each in (np, scipy, torch)},
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
    }
    table.to_csv(FOLDER / f"{study}.csv", index=False, float_format="%.5g", lineterminator="\n")
    text = json.dumps(provenance, indent=1, sort_keys=True)
    (FOLDER / f"{study}.json").write_text(text + "\n", encoding="utf-8")


def checksum(name: str) -> str:
    """Of the file of networks that a family's rows were computed from."""
    return hashlib.sha256((REFERENCE_FOLDER / f"{name}.safetensors").read_bytes()).hexdigest()[:16]
