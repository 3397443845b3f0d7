"""The store: what it returns is what was put in, or a clear error."""

import os

import pytest
import torch

from tasksym.store import Store, StoreError, default_folder, read, write

TENSORS = {"W_hh": torch.arange(12.0).reshape(3, 4), "loss": torch.ones(2, dtype=torch.float16)}
PROVENANCE = {"recipe": "a recipe", "seed": 3}


def test_what_is_written_is_read(tmp_path):
    write(tmp_path / "a.safetensors", TENSORS, PROVENANCE)
    tensors, provenance = read(tmp_path / "a.safetensors")
    assert provenance == PROVENANCE
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor) and tensors[name].dtype == tensor.dtype
    assert os.listdir(tmp_path) == ["a.safetensors"], "nothing else is left behind"


@pytest.mark.parametrize("kept", [0, 1, 8, 100, -1])
def test_a_truncated_file_is_refused(tmp_path, kept):
    path = tmp_path / "a.safetensors"
    write(path, TENSORS, PROVENANCE)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(StoreError, match=r"a\.safetensors is damaged"):
        read(path)


def test_every_changed_byte_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write(path, TENSORS, PROVENANCE)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(StoreError):
            read(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("not tensors")
    with pytest.raises(StoreError, match="damaged or not a tasksym file"):
        read(tmp_path / "text")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    write(path, TENSORS, PROVENANCE)
    whole = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, {"W_hh": torch.zeros(3)}, PROVENANCE)
    assert path.read_bytes() == whole
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_paths_depend_on_all_of_the_provenance(tmp_path):
    store = Store(tmp_path)
    assert store.path(PROVENANCE) == store.path(dict(reversed(PROVENANCE.items())))
    assert store.path(PROVENANCE) != store.path(PROVENANCE | {"seed": 4})


def test_the_folder_is_the_one_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKSYM_STORE", str(tmp_path / "elsewhere"))
    assert default_folder() == tmp_path / "elsewhere"
    monkeypatch.delenv("TASKSYM_STORE")
    assert "tasksym" in str(default_folder())
