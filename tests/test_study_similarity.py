"""The studies behind tensor similarity: layers that read digits and what truncation leaves, and the closure's bias."""

import closure_bias
import digits_layer
import numpy as np
import pandas as pd
import pytest

import tasksym as ts

BIAS = pd.read_csv(closure_bias._table.FOLDER / "closure_bias.csv")


def test_the_shipped_layers_read_digits():
    scores = [digits_layer.accuracy(digits_layer.layer(seed)) for seed in digits_layer.SEEDS]
    assert min(scores) > 0.97
    assert digits_layer.accuracy(ts.Bilinear.random(64, 64, 10).double()) < 0.4


def test_short_training_already_reads_most_digits():
    layer = digits_layer.train(7, steps=60).double()
    assert digits_layer.accuracy(layer) > 0.85


@pytest.mark.parametrize("weighted", [False, True])
def test_all_eigenvectors_give_the_layer_back_and_fewer_do_not(weighted):
    layer = digits_layer.layer(1)
    weight = digits_layer.root(digits_layer.MOMENT) if weighted else None
    whole, part = (digits_layer.truncated(layer, rank, weight) for rank in (65, 5))
    np.testing.assert_allclose(whole.forms(), layer.forms(), atol=1e-8)
    # other units, so that a distance is good to the root of the rounding error only, 1.5e-8
    assert ts.distance(layer, whole) < 1e-7 < 1e-2 < ts.distance(layer, part)
    assert part.hidden == 50


def test_each_truncation_is_the_best_for_its_second_moment():
    layer, S = digits_layer.layer(2), digits_layer.MOMENT
    plain, weighted = (digits_layer.truncated(layer, 3, M) for M in (None, digits_layer.root(S)))
    assert ts.distance(layer, plain, "sym") < ts.distance(layer, weighted, "sym")
    assert ts.distance(layer, weighted, "sym", second_moment=S) < ts.distance(layer, plain, "sym", second_moment=S)


def test_a_certificate_is_the_distance_that_drawn_inputs_measure():
    layer, S = digits_layer.layer(0), digits_layer.MOMENT
    part = digits_layer.truncated(layer, 3)
    drawn = ts.monte_carlo(layer, part, 20_000, second_moment=S)
    assert abs(drawn - ts.similarity(layer, part, second_moment=S)) < 4 * drawn.error
    assert digits_layer.certify(0, 3)["moments"] == ts.distance(layer, part, second_moment=S)


def test_the_table_of_the_closure_is_complete():
    keys = ["inputs", "residual", "depth", "seed"]
    assert not BIAS.duplicated(keys).any()
    assert len(BIAS) == 2 * len(closure_bias.INPUTS) * len(closure_bias.DEPTHS) * len(closure_bias.SEEDS)
    assert BIAS["exact"].notna().equals(BIAS["depth"] == 2)
    assert BIAS["quadrature"].notna().equals(BIAS["inputs"] == 4)
    two = BIAS.dropna()
    np.testing.assert_allclose(two["exact"], two["quadrature"], rtol=2e-5)


@pytest.mark.parametrize(
    "place", np.random.default_rng(0).choice(np.flatnonzero(BIAS["inputs"] == 4), 3, replace=False)
)
def test_a_random_part_of_the_table_comes_out_again(place):
    row = BIAS.loc[place]
    A, B = closure_bias.pair(4, row["depth"], row["seed"], row["residual"])
    found = [ts.similarity(A, B, method="closure"), closure_bias.quadrature(A, B)]
    np.testing.assert_allclose(found, row[["closure", "quadrature"]].astype(float), rtol=0, atol=2e-5)
