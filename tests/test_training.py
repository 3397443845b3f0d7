"""Training: what a seed gives, what the store keeps, and what happens when something goes wrong."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch

import tasksym as ts
from tasksym import training

SMALL = ts.Recipe(ts.FlipFlop(bits=1, steps=8), hidden=6, steps=20, trials=4)


@pytest.fixture
def store(tmp_path):
    return ts.Store(tmp_path)


def all_weights(solutions):
    weights = solutions.weights
    return torch.cat([matrix.flatten(1) for matrix in (weights.W_xh, weights.W_hh, weights.W_hy)], dim=1)


# --- What a seed gives


def test_solutions_are_in_the_order_of_their_seeds(store):
    solutions = ts.solve(SMALL, [5, 3, 4], store=store)
    assert solutions.seeds == (5, 3, 4) and len(solutions) == 3
    assert solutions.weights.W_xh.shape == (3, 6, 1)
    assert solutions.weights.W_hh.shape == (3, 6, 6)
    assert solutions.weights.W_hy.shape == (3, 1, 6)
    assert solutions.loss.shape == (3, 1)
    again = ts.solve(SMALL, [3, 4, 5], store=store)
    assert torch.equal(all_weights(again), all_weights(solutions)[[1, 2, 0]])


def test_networks_are_picked_by_their_seeds(store):
    solutions = ts.solve(SMALL, [5, 3, 4], store=store)
    some = solutions.of([4, 5])
    assert some.seeds == (4, 5) and some.recipe == SMALL
    assert torch.equal(all_weights(some), all_weights(solutions)[[2, 0]])
    assert torch.equal(some.loss, solutions.loss[[2, 0]])


@pytest.mark.parametrize("name", ts.RECIPES)
def test_a_seed_does_not_depend_on_its_company(name, tmp_path):
    """The same bytes alone, among 8, among 16, and at another place in its batch."""
    recipe = dataclasses.replace(ts.RECIPES[name], steps=3)
    alone = all_weights(ts.solve(recipe, [7], store=ts.Store(tmp_path / "alone")))[0]
    for company in (range(8), range(16), [3, 7, 5], range(7, 15)):
        among = ts.solve(recipe, company, store=ts.Store(tmp_path / str(company)))
        assert torch.equal(alone, all_weights(among)[among.seeds.index(7)])


def test_every_network_has_its_own_start_and_its_own_data(tmp_path):
    """Replicates differ in both; with one start, other data alone must lead elsewhere."""
    starts = ts.starting_networks(SMALL, [0, 1])
    assert not torch.equal(starts.W_hh[0], starts.W_hh[1])
    streams = [training._streams(seed)[1] for seed in (0, 1, 1)]
    draws = [stream.random(4) for stream in streams]
    assert (draws[0] != draws[1]).all() and (draws[1] == draws[2]).all()


def test_training_is_the_plain_algorithm(store):
    """Adam with cosine decay, one network alone, from torch's own parts."""
    recipe = dataclasses.replace(SMALL, clip=0.05)
    start = ts.starting_networks(recipe, [2])
    weights = [matrix.clone().requires_grad_() for matrix in (start.W_xh, start.W_hh, start.W_hy)]
    optimiser = torch.optim.Adam(weights, lr=recipe.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.steps, recipe.learning_rate / 100)
    data = training._streams(2)[1]
    for _ in range(recipe.steps):
        trials = recipe.task.sample(recipe.trials, data)
        optimiser.zero_grad()
        h, error = torch.zeros(recipe.trials, recipe.hidden), 0
        for x, y in zip(torch.tensor(trials.inputs), torch.tensor(trials.targets), strict=True):
            h = torch.tanh(x @ weights[0][0].T + h @ weights[1][0].T)
            error = error + ((h @ weights[2][0].T - y) ** 2).mean() / recipe.task.steps
        error.backward()
        torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
        optimiser.step()
        schedule.step()
    expected = torch.cat([matrix.detach().flatten(1) for matrix in weights], dim=1)
    torch.testing.assert_close(all_weights(ts.solve(recipe, [2], store=store)), expected, atol=1e-5, rtol=1e-4)


def test_the_number_of_threads_is_restored(store):
    before = torch.get_num_threads()
    ts.solve(SMALL, [0], store=store)
    assert torch.get_num_threads() == before
    with pytest.raises(FloatingPointError), warnings.catch_warnings():
        ts.solve(diverging(), [0], store=store)
    assert torch.get_num_threads() == before


def diverging():
    return ts.Recipe(Explosive(), hidden=6, steps=20, trials=4)


@dataclasses.dataclass(frozen=True)
class Explosive(ts.FlipFlop):
    """Targets so large that the squared error overflows float32."""

    bits: int = 1

    def sample(self, trials, rng):
        sampled = super().sample(trials, rng)
        return ts.Trials(sampled.inputs, 1e30 * sampled.targets, sampled.mask)


def test_divergence_names_the_seed_and_the_step(store):
    with pytest.raises(FloatingPointError, match="seed 3 diverged at step 0"):
        ts.solve(diverging(), [3], store=store)
    assert not list(store.folder.glob("*.safetensors"))


def test_the_progress_bar_leaves_no_trace(store, capfd, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    ts.solve(SMALL, [0], store=store)
    shown = capfd.readouterr()
    assert shown.out == "" and "training seed 0" in shown.err
    assert shown.err.rstrip(" \r").endswith("]") and shown.err.endswith("\r"), "the bar is wiped at the end"
    ts.solve(SMALL, [0], store=store)
    assert capfd.readouterr().err == "", "nothing was trained"
    ts.solve(SMALL, [1], store=store, progress=False)
    assert capfd.readouterr().err == ""


# --- What the store keeps


def test_what_was_trained_is_not_trained_again(store, monkeypatch):
    first = ts.solve(SMALL, [0, 1, 2], store=store)
    monkeypatch.setattr(training, "_train", lambda *_: pytest.fail("trained again"))
    assert torch.equal(all_weights(ts.solve(SMALL, [2, 0], store=store)), all_weights(first)[[2, 0]])


@pytest.mark.parametrize(
    "change", [{"steps": 21}, {"gain": 0.6}, {"clip": 0.5}, {"task": ts.FlipFlop(bits=1, steps=9)}], ids=str
)
def test_another_recipe_is_another_entry(store, change):
    ts.solve(SMALL, [0], store=store)
    ts.solve(dataclasses.replace(SMALL, **change), [0], store=store)
    assert len(list(store.folder.glob("*.safetensors"))) == 2


def test_another_width_is_another_entry(store, monkeypatch):
    ts.solve(SMALL, [0], store=store)
    monkeypatch.setattr(training, "WIDTH", 3)
    ts.solve(SMALL, [0], store=store)
    assert len(list(store.folder.glob("*.safetensors"))) == 2


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""])
def test_a_damaged_entry_is_trained_anew(store, damage):
    whole = ts.solve(SMALL, [0], store=store)
    (entry,) = store.folder.glob("*.safetensors")
    content = entry.read_bytes()
    entry.write_bytes(damage(content))
    with pytest.warns(UserWarning, match=r"damaged.*trained anew"):
        repaired = ts.solve(SMALL, [0], store=store)
    assert torch.equal(all_weights(repaired), all_weights(whole))
    assert entry.read_bytes() == content


def test_a_full_disk_loses_nothing(store, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match=r"seed 0 was trained but could not be kept .*No space left"):
        solutions = ts.solve(SMALL, [0], store=store)
    monkeypatch.undo()
    assert torch.equal(all_weights(solutions), all_weights(ts.solve(SMALL, [0], store=store)))


def test_a_store_that_cannot_be_written_is_said_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_train", lambda *_: pytest.fail("trained, although nothing could be kept"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ts.StoreError, match=r"cannot write to the store .*TASKSYM_STORE"):
        ts.solve(SMALL, [0], store=ts.Store(tmp_path / "file"))


def test_a_read_only_store_serves_what_it_has(store, monkeypatch):
    whole = ts.solve(SMALL, [0], store=store)

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert torch.equal(all_weights(ts.solve(SMALL, [0], store=store)), all_weights(whole))
    with pytest.raises(ts.StoreError, match="Permission denied"):
        ts.solve(SMALL, [1], store=store)


KILLED = """
import sys, tasksym as ts
recipe = ts.Recipe(ts.FlipFlop(bits=1, steps=8), hidden=6, steps=600, trials=4)
ts.solve(recipe, range(40), store=ts.Store(sys.argv[1]))
"""


def test_a_killed_training_leaves_a_store_that_can_be_used(tmp_path, monkeypatch):
    """Killed without a chance to tidy up, while it holds the lock and after some networks are done."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path])
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("*.safetensors"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.read_bytes() for path in tmp_path.glob("*.safetensors")}
    assert 4 <= len(kept) < 40
    recipe = dataclasses.replace(SMALL, steps=600)
    for path in kept:  # as if it had been killed in the middle of writing
        path.with_suffix(".partial").write_bytes(b"half a file")
    solutions = ts.solve(recipe, range(len(kept) + 2), store=ts.Store(tmp_path))
    assert all(path.read_bytes() == content for path, content in kept.items()), "finished networks are kept"
    fresh = ts.solve(recipe, [0, len(kept)], store=ts.Store(tmp_path / "fresh"))
    assert torch.equal(all_weights(fresh), all_weights(solutions)[[0, len(kept)]])


def test_an_interrupted_training_keeps_what_is_finished(store, monkeypatch):
    real, batches = training._train, []

    def interrupted(recipe, seeds, bar):
        batches.append(seeds)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return real(recipe, seeds, bar)

    monkeypatch.setattr(training, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ts.solve(SMALL, range(8), store=store)
    ts.solve(SMALL, range(8), store=store)
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7]]


def test_two_processes_train_a_network_once(tmp_path):
    code = (
        "import sys, tasksym as ts; from tasksym import training; real = training._train\n"
        "training._train = lambda *a: (print('trained', a[1]), real(*a))[1]\n"
        "recipe = ts.Recipe(ts.FlipFlop(bits=1, steps=8), hidden=6, steps=400, trials=4)\n"
        "ts.solve(recipe, range(8), store=ts.Store(sys.argv[1]))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    printed = "".join(process.communicate()[0] for process in running)
    assert sorted(printed.splitlines()) == ["trained [0, 1, 2, 3]", "trained [4, 5, 6, 7]"]
