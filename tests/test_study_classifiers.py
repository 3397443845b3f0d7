"""The shipped classifiers of the plane: good at their tasks where they were trained to be, and only there."""

import math

import classifiers
import pytest
import torch


@pytest.mark.parametrize("task", classifiers.TASKS)
def test_the_trained_ones_know_their_task_and_the_others_do_not(task):
    known = {
        kind: [
            classifiers.accuracy(classifiers.classifier(task, seed, kind), task, seed) for seed in classifiers.SEEDS
        ]
        for kind in classifiers.KINDS
    }
    assert min(known["trained"]) > 0.97
    assert max(known["shuffled"] + known["untrained"]) < 0.85


def test_a_rotation_moves_the_wedge_and_keeps_the_annulus():
    wedge, annulus = (classifiers.classifier(task, 0) for task in classifiers.TASKS)
    assert classifiers.accuracy(wedge, "wedge", 0, math.pi) < 0.6
    assert classifiers.accuracy(annulus, "annulus", 0, math.pi) > 0.97


def test_training_gives_what_is_shipped_up_to_the_processor():
    """Another processor may give other digits, but a network that knows the task, and nearly the same function."""
    again = classifiers.train("wedge", 3)
    shipped = classifiers.classifier("wedge", 3)
    points, _ = classifiers.sample("wedge", 99)
    with torch.no_grad():
        agreement = ((again(points) > 0) == (shipped(points) > 0)).double().mean()
    assert agreement > 0.97 and classifiers.accuracy(again, "wedge", 3) > 0.97
