"""Reference solutions: what is shipped, what is refused, and one network a recipe trained anew.

Trainings differ between instruction sets, some of them chaotically, so that they are judged by bands and orderings.
"""

import dataclasses

import numpy as np
import pytest
import torch

import tasksym as ts
from tasksym import references
from tasksym.store import read
from tasksym.training import PARAMETERS

# The spectra of the dense copy networks are dense around alpha; that their splits are in doubt is said on the page.
pytestmark = pytest.mark.filterwarnings("ignore::tasksym.SplitWarning")

SMALL = {
    "small": ts.Recipe(ts.FlipFlop(bits=1, steps=8), hidden=6, steps=20, trials=4),
    "small-cayley": ts.Recipe(
        ts.Copy(symbols=2, length=3), hidden=6, gain=1.5, parametrisation="cayley", steps=20, trials=4
    ),
}


@dataclasses.dataclass(frozen=True)
class Band:
    """What every solution of a recipe shows."""

    fvu: float  # at most
    score: float  # at least
    ranks: range
    ordered: tuple[str, ...] = ()  # couplings by falling ΔFVU
    destructive: tuple[str, ...] = ()  # couplings whose removal costs more than 0.2
    harmless: tuple[str, ...] = ()  # couplings whose removal costs less than 0.001


BANDS = {
    "copy-dense-orthogonal": Band(0.1, 0.99, range(55, 72), ordered=("RR", "CR", "CC"), destructive=("RR",)),
    "copy-cayley": Band(0.003, 0.999, range(72, 73), harmless=("RR", "CR", "CC")),
    "flip-flop": Band(0.02, 0.99, range(3, 4), ordered=("CR", "CC", "RR"), harmless=("RR",)),
    "sine": Band(0.005, 0.99, range(2, 4), destructive=("CR", "CC")),
    "context-integration": Band(0.02, 0.97, range(1, 4), destructive=("CR", "CC")),
}


def check(table, band):
    """Every network of a profile is in its band, up to one of an ordering in sixteen."""
    whole = table[table["couplings"] == ""]
    assert (whole["fvu"] < band.fvu).all() and (whole["score"] > band.score).all()
    assert whole["rank"].isin(band.ranks).all()
    effect = table.pivot(index="seed", columns="couplings", values="delta_fvu")
    for above, below in zip(band.ordered, band.ordered[1:], strict=False):
        assert (effect[above] > effect[below]).mean() >= 15 / 16
    assert all((effect[coupling] > 0.2).all() for coupling in band.destructive)
    assert all((effect[coupling].abs() < 1e-3).all() for coupling in band.harmless)


# --- What is shipped


@pytest.mark.parametrize("name", ts.RECIPES)
def test_reference_solutions_are_what_they_say(name):
    solutions = ts.reference(name)
    assert solutions.seeds == tuple(range(100, 116))
    assert solutions.recipe == ts.RECIPES[name]
    assert solutions.weights.W_hh.dtype == torch.float32
    provenance = read(references.REFERENCE_FOLDER / f"{name}.safetensors")[1]
    assert provenance.keys() == {"recipe", "seeds", "width", "source", "torch", "numpy", "instruction_set"}


def test_reference_solutions_are_small():
    assert sum(path.stat().st_size for path in references.REFERENCE_FOLDER.iterdir()) < 1_000_000


@pytest.mark.parametrize("name", ts.RECIPES)
def test_reference_solutions_are_in_their_bands(name):
    check(ts.ablation_profile(ts.reference(name)), BANDS[name])


def test_cayley_solutions_are_orthogonal_though_stored_in_half_precision():
    W = ts.reference("copy-cayley").weights.W_hh.double()
    assert (W.mT @ W - torch.eye(72)).abs().max() < 2e-6


def test_sine_needs_cr_more_per_unit_of_mass():
    table = ts.ablation_profile(ts.reference("sine"))
    sensitivity = table.pivot(index="seed", columns="couplings", values="sensitivity")
    assert (sensitivity["CR"] > sensitivity["CC"]).sum() >= 14


# --- What is refused


@pytest.mark.parametrize("name", ts.RECIPES)
def test_a_changed_reference_is_refused(name, tmp_path, monkeypatch):
    content = (references.REFERENCE_FOLDER / f"{name}.safetensors").read_bytes()
    monkeypatch.setattr(references, "REFERENCE_FOLDER", tmp_path)
    for position in np.linspace(0, len(content) - 1, 25).astype(int):
        changed = bytearray(content)
        changed[position] ^= 1
        (tmp_path / f"{name}.safetensors").write_bytes(changed)
        with pytest.raises(ts.StoreError, match="damaged"):
            ts.reference(name)


def test_a_reference_of_another_recipe_is_refused(monkeypatch):
    monkeypatch.setitem(ts.RECIPES, "flip-flop", SMALL["small"])
    with pytest.raises(ts.StoreError, match="trained by another recipe; `make reference`"):
        ts.reference("flip-flop")


def test_a_missing_reference_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(references, "REFERENCE_FOLDER", tmp_path)
    with pytest.raises(ts.StoreError, match=r"sine\.safetensors is not shipped .*`make reference`"):
        ts.reference("sine")


# --- Training anew


@pytest.mark.parametrize("name", ts.RECIPES)
def test_a_network_trained_anew_stays_in_its_bands(name, tmp_path, monkeypatch):
    """Alone in its batch, which changes its rounding and no more: bands have to bear that."""
    monkeypatch.setattr("tasksym.training.WIDTH", 1)
    recipe, seed = ts.RECIPES[name], ts.REFERENCE_SEEDS[0]
    trials = recipe.evaluation_trials()
    untrained = recipe.task.score(ts.starting_networks(recipe, [seed]).outputs(trials.inputs), trials)
    assert (untrained < 0.75).all()
    solutions = ts.solve(recipe, [seed], store=ts.Store(tmp_path))
    check(ts.ablation_profile(solutions), BANDS[name])
    shipped = ts.reference(name).loss[0]
    assert float(solutions.loss[0, -1]) == pytest.approx(float(shipped[-1]), rel=0.5)


@pytest.mark.parametrize("name", SMALL)
def test_writing_references(name, tmp_path, monkeypatch):
    """Shipped networks have the trained parameters in half precision, and W_hh made from those."""
    monkeypatch.setattr(references, "RECIPES", SMALL)
    monkeypatch.setattr(references, "REFERENCE_FOLDER", tmp_path)
    monkeypatch.setenv("TASKSYM_STORE", str(tmp_path / "store"))
    references.write_references(tmp_path)
    shipped, trained = ts.reference(name), ts.solve(SMALL[name], ts.REFERENCE_SEEDS)
    stored, _ = read(tmp_path / f"{name}.safetensors")
    assert all(stored[parameter].dtype == torch.float16 for parameter in PARAMETERS)
    assert torch.equal(shipped.weights.W_xh, trained.weights.W_xh.half().float())
    torch.testing.assert_close(shipped.weights.W_hh, trained.weights.W_hh, atol=2e-3, rtol=0)
    assert torch.equal(shipped.loss, trained.loss)
