"""The races themselves: peers compute the same, ratios read the right way. No clock is judged."""

import json
import sys

import numpy as np
import pytest
import race
import torch


def test_peers_compute_the_same():
    """Each of these raises if a contestant computes something else."""
    assert len(race.training_step(2)) >= 4
    assert len(race.ablated_rollouts(torch.float64)) == 2
    assert len(race.schur(16)) == 2
    assert len(race.tensor_cosine(8, 2, against=("Monte Carlo", "one layer"))) == 3


def test_a_peer_that_computes_something_else_is_found():
    with pytest.raises(AssertionError, match="cheat computes something else"):
        race.agree({"tasksym": lambda: [np.ones(3)], "cheat": lambda: [np.array([1, 1, 1.1])]}, rtol=1e-2)


def test_contestants_take_turns():
    turns = []
    seconds = race.race({"tasksym": lambda: turns.append("us"), "peer": lambda: turns.append("peer")}, rounds=3)
    assert turns == ["us", "peer"] * (race.WARM_UP + 3)
    assert {name: len(values) for name, values in seconds.items()} == {"tasksym": 3, "peer": 3}


def test_ratios_are_medians_within_rounds_and_read_the_right_way():
    seconds = {
        "tasksym": np.array([1.0, 10.0, 2.0]),
        "nn.RNN, looped": np.array([2.0, 30.0, 5.0]),
        "scipy.linalg.schur alone": np.array([0.5, 8.0, 1.0]),
    }
    faster, slower = race.ratios("some race", seconds)
    assert faster["ratio"] == 2.5 and faster["reads"] == "times as fast"
    assert slower["ratio"] == 2.0 and slower["reads"] == "times as long"


def test_a_share_counts_as_often_as_it_stands_for(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(race.time, "perf_counter", lambda: next(clock))
    seconds = race.race({"tasksym": lambda: None, "peer": race.Share(lambda: None, 2.5)}, rounds=2)
    assert seconds["tasksym"].tolist() == [1, 1] and seconds["peer"].tolist() == [2.5, 2.5]


def test_results_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(race, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(race, "RACES", {"ordered Schur, n = 8": lambda: race.schur(8)})
    monkeypatch.setattr(sys, "argv", ["race.py", "--rounds", "7"])
    for name, value in race.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    threads = torch.get_num_threads()
    race.main()
    torch.set_num_threads(threads)
    (result,) = json.loads((tmp_path / "results.json").read_text()).values()
    assert result.keys() == {"ratio", "machine", "date"} and result["ratio"] > 0
    assert "ordered Schur, n = 8" in capsys.readouterr().out
    monkeypatch.setattr(race, "RACES", {"other": lambda: race.schur(8), "third": lambda: race.schur(8)})
    monkeypatch.setattr(sys, "argv", ["race.py", "--rounds", "7", "--only", "oth"])
    race.main()
    torch.set_num_threads(threads)
    kept = json.loads((tmp_path / "results.json").read_text())
    assert [name.split(",")[0] for name in kept] == ["ordered Schur", "other"]


def test_few_rounds_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["race.py", "--rounds", "3"])
    with pytest.raises(SystemExit):
        race.main()
    assert "fewer than 7 rounds" in capsys.readouterr().err
