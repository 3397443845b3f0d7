"""A content-addressed cache of trained networks: safetensors files, written whole or not at all, never pickled.

A file is named by the hash of everything that determines its content, so that a stale result cannot be found. It
carries that provenance and a checksum of its tensors, so that a damaged one cannot be read.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import filelock
import platformdirs
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor


class StoreError(RuntimeError):
    """A stored file is damaged, or the store cannot be written."""


def default_folder() -> Path:
    """The folder named by the environment variable TASKSYM_STORE, or the user's cache folder."""
    return Path(os.environ.get("TASKSYM_STORE") or platformdirs.user_cache_path("tasksym"))


@dataclass(frozen=True)
class Store:
    """A folder of trained networks.

    Parameters
    ----------
    folder : Path, optional
        Made when first written to; see `default_folder`.
    """

    folder: Path = field(default_factory=default_folder)

    def path(self, provenance: dict) -> Path:
        """Where the result with this provenance is kept."""
        text = json.dumps(provenance, sort_keys=True)
        return Path(self.folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.safetensors"

    def lock(self, provenance: dict) -> filelock.FileLock:
        """A lock for whoever computes the result with this provenance; it ends with its process, however that ends.

        Raises
        ------
        StoreError
            If the folder cannot be written.
        """
        folder = Path(self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise StoreError(
                f"cannot write to the store {folder} ({error.strerror}), so that training would be lost; make it "
                "writable, or name another folder: set TASKSYM_STORE or pass store=Store(folder)"
            ) from None
        return filelock.FileLock(self.path(provenance).with_suffix(".lock"))


def write(path: Path, tensors: dict[str, Tensor], provenance: dict) -> None:
    """Write tensors with their provenance and a checksum; a reader sees the whole file or none.

    Raises
    ------
    OSError
        If the disk is full or the folder cannot be written; nothing is left behind.
    """
    tensors = {name: tensor.contiguous() for name, tensor in sorted(tensors.items())}
    text = json.dumps(provenance, sort_keys=True)
    # One entry, since safetensors writes several in no fixed order, and equal results shall be equal files.
    metadata = {"tasksym": json.dumps({"provenance": text, "sha256": _checksum(tensors, text)})}
    partial = path.with_suffix(".partial")  # one name a result: what a killed process left is overwritten
    try:
        with open(partial, "wb") as file:
            file.write(save(tensors, metadata))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[dict[str, Tensor], dict]:
    """Tensors and provenance of a file.

    Raises
    ------
    StoreError
        If the file is cut short, is not ours, or its bytes were changed.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})["tasksym"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        text, checksum = metadata["provenance"], metadata["sha256"]
        provenance = json.loads(text)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged or not a tasksym file ({error})") from None
    if checksum != _checksum(tensors, text):
        raise StoreError(f"{path} is damaged: its bytes do not match the checksum it carries")
    return tensors, provenance


def _checksum(tensors: dict[str, Tensor], provenance: str) -> str:
    digest = hashlib.sha256(provenance.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
