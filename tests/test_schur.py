"""The ordered real Schur form: what it must satisfy for every matrix, and each numerical trap."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tasksym as ts
from tasksym import _blocks

EPS = np.finfo(float).eps
CASES = json.loads((Path(__file__).parent / "cases" / "quasi-triangular.json").read_text())["cases"]


def random_orthogonal(n, rng):
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def rotated(T, rng):
    Q = random_orthogonal(len(T), rng)
    return Q @ T @ Q.T


def pairs(moduli, angles):
    """Block diagonal with one conjugate pair an entry."""
    return scipy.linalg.block_diag(
        *(m * np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for m, a in zip(moduli, angles, strict=True))
    )


def reflections(n, rng):
    """±½ in turn: every modulus is tied, and every sign is in doubt."""
    return rotated(np.diag(np.where(np.arange(n) % 2, 0.5, -0.5)) + 0.1 * np.triu(rng.normal(size=(n, n)), 1), rng)


def clustered(n, rng):
    """Conjugate pairs that agree to 14 digits, and a one where n is odd."""
    moduli = 0.5 + 1e-14 * rng.normal(size=n // 2)
    T = np.eye(n)
    if n > 1:
        T[n % 2 :, n % 2 :] = pairs(moduli, np.full(n // 2, 0.7))
    return rotated(T, rng)


FAMILIES = {
    "gaussian": lambda n, rng: rng.normal(size=(n, n)) / np.sqrt(n),
    "orthogonal": random_orthogonal,
    "orthogonal float32": lambda n, rng: random_orthogonal(n, rng).astype(np.float32),
    "symmetric": lambda n, rng: (lambda a: a + a.T)(rng.normal(size=(n, n))),
    "skew": lambda n, rng: (lambda a: a - a.T)(rng.normal(size=(n, n))),
    "integers": lambda n, rng: rng.integers(-2, 3, size=(n, n)),
    "nilpotent": lambda n, rng: np.triu(rng.normal(size=(n, n)), 1),
    "shift": lambda n, rng: np.eye(n, k=-1),
    "shift with noise": lambda n, rng: np.eye(n, k=1) + 1e-16 * rng.normal(size=(n, n)),
    "Jordan": lambda n, rng: 0.9 * np.eye(n) + np.eye(n, k=1),
    "Jordan rotated": lambda n, rng: rotated(0.9 * np.eye(n) + np.eye(n, k=1), rng),
    "±λ": reflections,
    "clustered pairs": clustered,
    "companion": lambda n, rng: scipy.linalg.companion(np.r_[1.0, rng.normal(size=n)]) if n > 1 else np.ones((1, 1)),
    "tridiagonal": lambda n, rng: np.eye(n, k=1) + 0.5 * np.eye(n, k=-1),
    "Grcar": lambda n, rng: sum(np.eye(n, k=k) for k in range(4)) - np.eye(n, k=-1),
    "zero": lambda n, rng: np.zeros((n, n)),
    "identity": lambda n, rng: np.eye(n),
    "rank one": lambda n, rng: np.outer(rng.normal(size=n), rng.normal(size=n)),
    "permutation": lambda n, rng: np.eye(n)[rng.permutation(n)],
    "large": lambda n, rng: 1e100 * rng.normal(size=(n, n)),
    "small": lambda n, rng: 1e-100 * rng.normal(size=(n, n)),
    "graded rows": lambda n, rng: rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-6, 6, size=(n, 1)),
    "upper triangular": lambda n, rng: np.triu(rng.normal(size=(n, n))),
    "already ordered": lambda n, rng: ts.ordered_schur(rng.normal(size=(n, n))).T,
}


def check_form(W, schur):
    """Every property that the form owes to every matrix, of which none depends on the signs of Q."""
    W = np.asarray(W, dtype=float)
    n = len(W)
    assert np.linalg.norm(schur.Q @ schur.T @ schur.Q.T - W) <= 20 * n * EPS * np.linalg.norm(W)
    assert np.linalg.norm(schur.Q.T @ schur.Q - np.eye(n)) <= 20 * n * EPS
    assert sum(size for _, size in schur.blocks) == n
    below = np.tril(schur.T, -1)
    for start, size in schur.blocks:
        assert size in (1, 2)
        if size == 2:
            assert np.iscomplex(np.linalg.eigvals(schur.T[start : start + 2, start : start + 2])).all(), (
                "a pair is split"
            )
            below[start + 1, start] = 0
    assert not below.any(), "not exactly zero below the blocks"
    largest_after = np.maximum.accumulate(schur.moduli[::-1])[::-1]
    assert (schur.moduli >= largest_after - schur.tolerance).all(), "moduli increase along the diagonal"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_matrix(family):
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 5, 8, 16, 33, 64, 128):
        for _ in range(20 if n <= 8 else 6 if n <= 64 else 2):
            W = FAMILIES[family](n, rng)
            check_form(W, ts.ordered_schur(W))


def test_eigenvalues_that_move_when_swapped_are_ordered_all_the_same():
    """Here ±½ are double and nearly defective: each swap moves them by far more than the tolerance.

    One pass of sorting leaves this matrix out of order; it was found by chance, about once in three thousand draws.
    """
    W = np.array(
        [
            [-0.20034107809763627, 0.4905414935344572, 0.1227232022799492, -0.1255772135315732],
            [0.41138656154199965, 0.17173779391443572, -0.052966655963497054, -0.0379609623376312],
            [0.11305868370177903, -0.02202158214639342, 0.4601973263455955, 0.15106248918834628],
            [-0.10659101199925201, -0.21859380448938462, 0.182906743972172, -0.431594042162395],
        ]
    )
    check_form(W, ts.ordered_schur(W))


def test_what_no_swap_can_settle_is_recorded(monkeypatch):
    """Let every swap disturb the eigenvalues anew: sorting ends, and says which pairs it could not order."""
    real, rng = _blocks.dtrexc, np.random.default_rng(0)

    def disturbing(T, Q, source, target):
        T, Q, info = real(T, Q, source, target)
        return T + np.diag(0.1 * rng.random(len(T))), Q, info

    monkeypatch.setattr(_blocks, "dtrexc", disturbing)
    refused = []
    T, _ = _blocks.sort(np.diag(np.linspace(0.1, 0.2, 12)) + np.triu(np.ones((12, 12)), 1), np.eye(12), EPS, refused)
    eigenvalues = _blocks.eigenvalues_of(T, _blocks.starts_of(T)).real
    increases = [i for i in range(12) if eigenvalues[i] < eigenvalues[i:].max() - 1e-12]
    assert {pair[0].real for pair in refused} >= {eigenvalues[i] for i in increases}


@given(arrays(np.float64, st.integers(1, 9).map(lambda n: (n, n)), elements=st.floats(-2, 2, width=16)))
@settings(deadline=None, max_examples=400)
def test_any_small_matrix(W):
    check_form(W, ts.ordered_schur(W))


@given(st.integers(2, 128), st.integers(0, 2**32 - 1), st.floats(0, 3))
@settings(deadline=None, max_examples=60)
def test_planted_spectrum(n, seed, non_normality):
    rng = np.random.default_rng(seed)
    moduli = np.sort(rng.uniform(0.05, 1.2, size=n // 2))
    T = pairs(moduli, rng.uniform(0.2, 2.9, size=n // 2)) + non_normality / n * np.triu(
        rng.normal(size=(n // 2 * 2,) * 2), 2
    )
    W = rotated(T, rng)
    schur = ts.ordered_schur(W)
    check_form(W, schur)
    assert [size for _, size in schur.blocks] == [2] * (n // 2)
    np.testing.assert_allclose(schur.moduli, moduli[::-1], rtol=1e-6)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_lapack_cases(case):
    """The swaps on which LAPACK's own tests insist; in eight of them a pair splits on the way."""
    T = np.array(CASES[case]["T"])
    check_form(T, ts.ordered_schur(T))
    rng = np.random.default_rng(case)
    start = ts.ordered_schur(T)
    for _ in range(5):
        moved = start.reordered(rng.permutation(len(start.blocks)))
        assert np.linalg.norm(moved.Q @ moved.T @ moved.Q.T - T) <= 20 * len(T) * EPS * np.linalg.norm(T)
        if not moved.refused and len(moved.blocks) == len(start.blocks):
            np.testing.assert_allclose(np.sort(moved.moduli), np.sort(start.moduli), rtol=1e-4)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_pair_may_split_on_its_way(case):
    """Move each case's block as LAPACK's test does, then sort: no block is lost or taken for another."""
    T, Q = np.array(CASES[case]["T"]), np.eye(CASES[case]["n"])
    starts = _blocks.starts_of(T)
    source, target = (
        int(np.searchsorted(starts, CASES[case][key] - 1, side="right")) - 1 for key in ("move_from", "move_to")
    )
    order = list(range(len(starts)))
    order.insert(target, order.pop(source))
    moved_T, moved_Q = _blocks.permute(T, Q, order, [])
    assert np.linalg.norm(moved_Q @ moved_T @ moved_Q.T - T) <= 20 * len(T) * EPS * np.linalg.norm(T)
    sorted_T, _ = _blocks.sort(moved_T, moved_Q, EPS, [])
    moduli = np.abs(_blocks.eigenvalues_of(sorted_T, _blocks.starts_of(sorted_T)))
    assert (np.diff(moduli) <= _blocks.tie_tolerance(moduli, len(T), EPS)).all()


def test_some_case_splits():
    """The trap is real: without reading the blocks anew, these moves would be misread."""
    split = 0
    for case in CASES:
        T, starts = np.array(case["T"]), _blocks.starts_of(np.array(case["T"]))
        moved, _, _ = _blocks.dtrexc(T, np.eye(len(T)), case["move_from"], case["move_to"])
        split += len(_blocks.starts_of(moved)) != len(starts)
    assert split > 0


def refusing(monkeypatch, pair):
    """Let LAPACK refuse to swap the two eigenvalues of `pair`, as it does on some platforms when they are close."""
    real = _blocks.dtrexc

    def dtrexc(T, Q, source, target):
        for block in range(source - 1, target - 1, -1):
            if {round(T[block, block], 6), round(T[block - 1, block - 1], 6)} == set(pair):
                return T, Q, 1
            T, Q, _ = real(T, Q, block + 1, block)
        return T, Q, 0

    monkeypatch.setattr(_blocks, "dtrexc", dtrexc)


def test_a_refused_swap_is_recorded_and_kept(monkeypatch):
    refusing(monkeypatch, (0.5, 0.500001))
    W = np.diag([0.1, 0.5, 0.2, 0.500001, 0.95]) + 0.1 * np.triu(np.ones((5, 5)), 1)
    schur = ts.ordered_schur(W)
    assert schur.refused == ((0.5, 0.500001),)
    np.testing.assert_allclose(schur.eigenvalues.real, [0.95, 0.5, 0.500001, 0.2, 0.1])
    assert schur.sectors(0.9).rank == 1


def test_a_refused_swap_across_alpha_names_both_eigenvalues(monkeypatch):
    refusing(monkeypatch, (0.899999, 0.900001))
    W = np.diag([0.1, 0.899999, 0.900001]) + 0.1 * np.triu(np.ones((3, 3)), 1)
    with pytest.raises(ValueError, match=r"0\.899999 and 0\.900001 lie on either side of alpha = 0\.9"):
        ts.ordered_schur(W).sectors(0.9)


def test_reordering_survives_a_refused_swap(monkeypatch):
    schur = ts.ordered_schur(np.diag([0.8, 0.500001, 0.5, 0.2]) + 0.1 * np.triu(np.ones((4, 4)), 1))
    refusing(monkeypatch, (0.5, 0.500001))
    moved = schur.reordered([3, 2, 1, 0])
    assert moved.refused == ((0.500001, 0.5),)
    np.testing.assert_allclose(moved.eigenvalues.real, [0.2, 0.500001, 0.5, 0.8])


def test_an_orthogonal_matrix_is_not_sorted():
    """All moduli agree to rounding, so that sorting them would sort noise: LAPACK's own order is kept."""
    W = random_orthogonal(64, np.random.default_rng(3))
    T, Q = scipy.linalg.schur(W, output="real")
    schur = ts.ordered_schur(W)
    np.testing.assert_array_equal(schur.T, T)
    np.testing.assert_array_equal(schur.Q, Q)


def test_the_tie_tolerance_is_that_of_the_given_dtype():
    W = rotated(np.diag([0.5, 0.5 + 1e-7]), np.random.default_rng(0))
    assert ts.ordered_schur(W.astype(np.float32)).tolerance > 1e-7 > ts.ordered_schur(W).tolerance


def test_eigenvalues_on_alpha_lead_and_are_reported():
    W = rotated(np.diag([0.9, 0.9, 0.3]), np.random.default_rng(1))
    with pytest.warns(ts.SplitWarning, match="not to be trusted"):
        sectors = ts.ordered_schur(W).sectors(0.9)
    assert sectors.rank == 2
    assert sectors.gap == pytest.approx(0.6)


def test_a_small_gap_at_alpha_is_warned_of():
    W = rotated(np.diag([0.9001, 0.8999, 0.3]), np.random.default_rng(1))
    with pytest.warns(ts.SplitWarning, match=r"gap 0\.0002"):
        ts.ordered_schur(W).sectors(0.9)


@pytest.mark.parametrize("noise", [0.0, 1e-16])
def test_a_shift_register_is_not_to_be_trusted(noise):
    """Its eigenvalues are all zero, or near 0.57 after rounding: what the split reports is noise."""
    W = np.eye(64, k=1) + noise * np.random.default_rng(0).normal(size=(64, 64))
    with pytest.warns(ts.SplitWarning, match="not to be trusted"):
        assert ts.ordered_schur(W).sectors(0.9).margin < 1e-3


def test_the_margin_is_what_it_takes_to_cross_alpha():
    W = rotated(np.diag([1.2, 0.5, 0.4]), np.random.default_rng(0))
    assert ts.ordered_schur(W).sectors(0.9).margin == pytest.approx(0.3 / 1.2)
    assert ts.ordered_schur(np.zeros((3, 3))).sectors(0.9).margin == np.inf


@pytest.mark.parametrize("alpha, rank", [(0.1, 4), (5.0, 0)])
def test_an_empty_sector_is_valid(alpha, rank):
    W = rotated(np.diag([1.0, 0.8, 0.6, 0.4]) + np.triu(np.ones((4, 4)), 1), np.random.default_rng(0))
    sectors = ts.ordered_schur(W).sectors(alpha)
    assert sectors.rank == rank
    assert np.isnan(sectors.gap)
    absent = {"CR", "CC"} if rank == 4 else {"CR", "RR"}
    assert all((mass == 0) == (name in absent) for name, mass in sectors.mass.items())
    for name in absent:
        np.testing.assert_array_equal(sectors.ablate(name), W)


@pytest.mark.parametrize(
    "convert",
    [
        lambda W: W.astype(np.float32),
        lambda W: torch.tensor(W),
        lambda W: torch.tensor(W, dtype=torch.float32, requires_grad=True),
        lambda W: np.asfortranarray(W),
        lambda W: np.repeat(W, 2, axis=1)[:, ::2],
        lambda W: W.tolist(),
        lambda W: (4 * W).astype(int),
        lambda W: W.astype(np.float16),
        lambda W: W.astype(np.longdouble),
    ],
    ids=["float32", "tensor", "with gradient", "Fortran", "strided", "list", "integers", "float16", "longdouble"],
)
def test_accepted_inputs(convert):
    W = convert(np.random.default_rng(0).normal(size=(12, 12)))
    schur = ts.ordered_schur(W)
    assert schur.T.dtype == schur.Q.dtype == np.float64
    check_form(W.detach().numpy() if isinstance(W, torch.Tensor) else W, schur)


def test_the_input_is_not_changed():
    W = np.asfortranarray(np.random.default_rng(0).normal(size=(8, 8)))
    before = W.copy()
    ts.ordered_schur(W).sectors(0.9).ablate("CC")[:] = 0
    np.testing.assert_array_equal(W, before)


# --- Sectors and ablations


def some_sectors(seed=0, n=24, alpha=0.6):
    W = np.random.default_rng(seed).normal(size=(n, n)) / np.sqrt(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SplitWarning)  # random matrices may well have a small gap
        return ts.ordered_schur(W).sectors(alpha)


@pytest.mark.parametrize("seed", range(5))
def test_what_an_ablation_does(seed):
    sectors = some_sectors(seed)
    Q, T, W, r = sectors.schur.Q, sectors.schur.T, sectors.schur.W, sectors.rank
    np.testing.assert_array_equal(sectors.spectral + sectors.coupling, T)
    np.testing.assert_array_equal(sectors.ablate(""), W)
    for couplings in ts.SETS:
        ablated = sectors.ablate(couplings)
        expected = T.copy()
        for name, rows, columns in (
            ("RR", range(r), range(r)),
            ("CR", range(r), range(r, len(T))),
            ("CC", range(r, len(T)), range(r, len(T))),
        ):
            if name in couplings.split("+"):
                for i in rows:
                    for j in columns:
                        expected[i, j] = sectors.spectral[i, j]
        np.testing.assert_allclose(ablated, Q @ expected @ Q.T, atol=1e-13)
        assert np.linalg.norm(W - ablated) == pytest.approx(sectors.removed_mass(couplings), abs=1e-13)
        assert sectors.removed_mass(couplings) == pytest.approx(np.linalg.norm(T - expected), abs=1e-13)
        distance = np.abs(np.linalg.eigvals(ablated)[:, None] - np.linalg.eigvals(W)).min(axis=1)
        assert distance.max() < 1e-8, "an ablation moved the spectrum"


def test_an_ablation_on_the_wrong_side_would_move_the_spectrum():
    """The twin of the invariance above: the diagonal blocks are what an ablation must not touch."""
    sectors = some_sectors()
    W = sectors.schur.W - sectors.schur.Q @ (0.5 * sectors.spectral) @ sectors.schur.Q.T
    distance = np.abs(np.linalg.eigvals(W)[:, None] - np.linalg.eigvals(sectors.schur.W)).min(axis=1)
    assert distance.max() > 1e-2


def test_a_pair_stays_whole_in_the_spectral_part():
    """Non-normality inside a conjugate pair is part of B, not of N."""
    W = np.array([[0.0, 2.0], [-0.5, 0.0]])
    sectors = ts.ordered_schur(W).sectors(0.9)
    np.testing.assert_array_equal(sectors.coupling, np.zeros((2, 2)))


def test_names_of_couplings():
    sectors = some_sectors()
    expected = sectors.ablate("RR+CC")
    for spelling in ("CC+RR", ["CC", "RR"], {"RR", "CC"}, ("RR", "CC", "RR")):
        np.testing.assert_array_equal(sectors.ablate(spelling), expected)
    np.testing.assert_array_equal(sectors.ablate([]), sectors.schur.W)


def test_bases_span_their_sectors():
    sectors = some_sectors()
    leading, complement = sectors.basis("R"), sectors.basis("C")
    assert leading.shape[1] == sectors.rank
    np.testing.assert_allclose(np.hstack([leading, complement]), sectors.schur.Q)
    W = sectors.schur.W
    np.testing.assert_allclose(complement.T @ W @ leading, 0, atol=1e-13)  # the leading subspace is invariant
    assert np.abs(leading.T @ W @ complement).max() > 1e-2  # the complement is not


@pytest.mark.parametrize("seed", range(4))
def test_cr_is_canonical_and_rr_and_cc_are_not(seed):
    """Removing C→R is W − P W (1 − P) with P the projector onto the leading subspace, whatever the order inside."""
    sectors = some_sectors(seed)
    P = sectors.basis("R") @ sectors.basis("R").T
    W = sectors.schur.W
    canonical = W - P @ W @ (np.eye(len(W)) - P)
    np.testing.assert_allclose(sectors.ablate("CR"), canonical, atol=1e-13)
    rng = np.random.default_rng(seed)
    others = []
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.SplitWarning)
            others.append(sectors.schur.reordered(sectors.schur.admissible_order(rng, 0.6)).sectors(0.6))
    for other in others:
        check = other.schur
        assert np.linalg.norm(check.Q @ check.T @ check.Q.T - W) <= 40 * len(W) * EPS * np.linalg.norm(W)
        np.testing.assert_allclose(other.ablate("CR"), canonical, atol=1e-12)
    for name in ("RR", "CC"):
        assert max(np.abs(other.ablate(name) - sectors.ablate(name)).max() for other in others) > 1e-2


def test_reordered_puts_the_blocks_where_the_order_says():
    sectors = some_sectors(2)
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(len(sectors.schur.blocks))
        moved = sectors.schur.reordered(order)
        np.testing.assert_allclose(moved.eigenvalues, sectors.schur.eigenvalues[order], atol=1e-10)
    same = sectors.schur.reordered(range(len(order)))
    np.testing.assert_array_equal(same.T, sectors.schur.T)


def test_ablations_do_not_depend_on_the_signs_of_q():
    sectors = some_sectors(1)
    signs = np.where(np.random.default_rng(0).random(len(sectors.schur.T)) < 0.5, -1.0, 1.0)
    flipped = ts.OrderedSchur(
        sectors.schur.W, sectors.schur.Q * signs, signs[:, None] * sectors.schur.T * signs, sectors.schur.eps
    )
    other = ts.Sectors(flipped, sectors.alpha, sectors.rank)
    for couplings in ts.SETS:
        np.testing.assert_allclose(other.ablate(couplings), sectors.ablate(couplings), atol=1e-13)


def test_one_pass_orders_what_is_well_conditioned(monkeypatch):
    """Further passes mend what the first left out of order; they must not have to mend its bookkeeping."""
    monkeypatch.setattr("tasksym._blocks.PASSES", 1)
    for seed in range(20):
        W = np.random.default_rng(seed).normal(size=(24, 24))
        schur = ts.ordered_schur(W)
        assert not schur.refused
        assert (np.diff(schur.moduli) <= schur.tolerance).all()
