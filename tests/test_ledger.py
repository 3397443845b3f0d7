"""The ledger of claims: its rule on margins made up, and its verdicts computed anew."""

import companion_claims
import ledger
import numpy as np
import pandas as pd
import pytest

import tasksym as ts

ABOVE, BELOW = (0.1, 0.3), (-0.1, 0.3)


def margin(*by_order):
    """Margins of three networks in some orders."""
    index = pd.MultiIndex.from_product([range(len(by_order)), range(3)], names=["order", "seed"])
    return pd.Series(np.concatenate(by_order), index=index)


@pytest.mark.parametrize("room, expected", [(None, "reproduced"), (0.1, "reproduced"), (-0.1, "qualified")])
def test_what_can_go_must_be_cheaper_than_a_random_removal(room, expected):
    assert ledger.verdict(margin([1, 2, 3]), ABOVE, room=room) == expected
    assert ledger.verdict(margin([-1, -2, -3]), BELOW, room=room) == "not reproduced"


@pytest.mark.parametrize(
    "values, interval, by_construction, expected",
    [
        (margin([1, 2, 3]), ABOVE, False, "reproduced"),
        (margin([1, 2, 3]), BELOW, False, "qualified"),
        (margin([1, 2, 3], [1, -2, 3], [-1, 2, 3]), ABOVE, False, "qualified"),
        (margin([1, 2, 3], [-1, 2, 3], [-1, 2, 3]), ABOVE, False, "reproduced"),
        (margin([-1, 0, 3]), BELOW, False, "not reproduced"),
        (margin([-1, -2, 3], [1, 2, 3]), BELOW, False, "not reproduced"),
        (margin([1, 2, 3]), ABOVE, True, "by construction"),
        (pd.Series([1, 2, 3]), ABOVE, False, "reproduced"),
    ],
)
def test_the_rule(values, interval, by_construction, expected):
    assert ledger.verdict(values, interval, by_construction) == expected


def test_the_least_favourable_order_is_that_of_each_network():
    by_modulus, worst = ledger.by_order(margin([1, 2, 3], [4, -5, 6], [0, 7, 8]))
    assert by_modulus.tolist() == [1, 2, 3] and worst.tolist() == [0, -5, 3]


@pytest.fixture(scope="module")
def evidence():
    return ledger.Evidence()


def test_orders_replace_only_what_depends_on_them(evidence):
    effect = evidence("context-integration", "delta_fvu")
    assert effect.index.names == ["order", "seed"] and len(effect) == 51 * 16
    assert (effect["CR"].groupby("seed").nunique() == 1).all()
    assert (effect["CC"].groupby("seed").nunique() > 40).all()
    profile = ts.ablation_profile(ts.reference("context-integration")).pivot(
        index="seed", columns="couplings", values="delta_fvu"
    )
    np.testing.assert_allclose(effect.loc[0], profile, rtol=1e-3, atol=1e-9)


def test_room_is_what_a_removal_costs_less_than_random_ones(evidence):
    """The flip-flop's CC is cheaper than nineteen of twenty cuts of its mass; its RR is dearer."""
    redundant, small = evidence.chance("flip-flop", "CC"), evidence.chance("flip-flop", "RR")
    assert list(redundant.index) == list(ts.REFERENCE_SEEDS)
    assert (redundant["room"] > 0).all() and (redundant["relative"] == "below chance").all()
    assert (small["room"] < 0).all() and (small["effect"] == "harmless").all()


def test_the_verdicts_are_those_that_the_book_prints(evidence):
    verdicts = ledger.judged(evidence)["verdict"].tolist()
    assert len(verdicts) == len(ledger.CLAIMS)
    assert verdicts == VERDICTS


VERDICTS = [
    "reproduced",  # large changes can leave behaviour
    "not reproduced",  # eigenvectors are ill-conditioned
    "qualified",  # copy survives without CC, which is small
    "reproduced",  # but not without RR or CR
    "by construction",  # Cayley
    "reproduced",  # flip-flop: C→R costs most
    "not reproduced",  # and about .09
    "qualified",  # RR costs nothing, since there is hardly any
    "reproduced",  # sine: both are costly
    "reproduced",  # CR has the highest S
    "qualified",  # context: CC costs most, by modulus
    "reproduced",  # the non-normal part cannot be ignored
    "reproduced",  # no coupling is always safe
    "reproduced",  # profiles vary over tasks
    "reproduced",  # and over solutions
]


def test_what_training_did_must_be_ahead_of_what_it_did_not_do():
    margin = pd.Series([1.0, 2.0, 3.0])
    claims = [
        ledger.Claim("", "", lambda e: margin, lambda e: {}, control=lambda e, ahead=ahead: pd.Series([ahead] * 3))
        for ahead in (0.5, -0.5)
    ]
    assert ledger.judged(None, claims)["verdict"].tolist() == ["reproduced", "qualified"]


@pytest.mark.parametrize("paper", ["SENSITIVITY", "TENSORS"])
def test_the_verdicts_on_companions_are_those_that_the_book_prints(paper):
    verdicts = ledger.judged(companion_claims.Tables(), getattr(companion_claims, paper))["verdict"].tolist()
    assert verdicts == COMPANIONS[paper]


COMPANIONS = {
    "SENSITIVITY": [
        "reproduced",  # resolved directions turn the function
        "reproduced",  # and keep the defect
        "reproduced",  # fixed ones leave the orbit
        "reproduced",  # resolved directions remove the defect
        "reproduced",  # at their own pace
        "not reproduced",  # not in the hats, which need more
        "reproduced",  # a fixed b* fails on annulus and hats
        "not reproduced",  # but not on the wedge
        "reproduced",  # angular momentum is kept
        "not reproduced",  # there is no action on the parameters
        "qualified",  # W₁'s share of c*: shuffled networks have it, too
        "not reproduced",  # b* belongs to no parameter
    ],
    "TENSORS": [
        "by construction",  # gauges
        "not reproduced",  # the deep recursion tells equal functions apart
        "qualified",  # structure moves on; logits and CKA see it, too
        "reproduced",  # Fourier waves
        "not reproduced",  # many of them
        "reproduced",  # a backdoor shows in the weights
        "not reproduced",  # and in the logits of its output
        "reproduced",  # the trigger can be read off
        "qualified",  # forgetting, which logits see better
        "reproduced",  # n-grams in their order
        "not reproduced",  # as blocks of the checkpoint matrix
        "reproduced",  # a decomposition's fidelity, from weights
    ],
}
