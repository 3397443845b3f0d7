"""Figures draw what they are given, and tables print it in the house style."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

import tasksym as ts

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def solutions():
    return ts.reference("flip-flop")


@pytest.fixture
def ax():
    with matplotlib.rc_context():
        ts.plotting.use_style()
        figure, ax = plt.subplots()
        yield ax
        plt.close(figure)


@pytest.fixture
def figure(ax):
    ax.remove()
    return plt.gcf()


def test_loss_draws_every_seed(solutions, ax):
    assert ts.plotting.loss(solutions, ax) is ax
    assert len(ax.lines) == 16
    np.testing.assert_allclose(ax.lines[3].get_ydata(), solutions.loss[3])
    assert ax.lines[3].get_xdata()[-1] == solutions.recipe.steps


def test_rollout_draws_every_channel(solutions, ax):
    trials = solutions.recipe.evaluation_trials(4)
    outputs = solutions.weights.outputs(trials.inputs)[0]
    ts.plotting.rollout(trials, outputs, trial=2, ax=ax)
    drawn = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 60][1::2]
    for channel, values in enumerate(drawn):
        np.testing.assert_allclose(values - 3 * (2 - channel), outputs[:, 2, channel], atol=1e-6)


@pytest.mark.parametrize("name", ["copy-cayley", "flip-flop", "sine", "context-integration"])
def test_trial_draws_every_channel_of_every_task(name, figure):
    solutions = ts.reference(name)
    trials = solutions.recipe.evaluation_trials(4)
    outputs = solutions.weights.outputs(trials.inputs)[0]
    scaled = trials.inputs / np.abs(trials.inputs).max(axis=(0, 1))
    axes = ts.plotting.trial(trials, outputs, trial=2)
    for ax, panels in zip(axes, ([scaled], [trials.targets, outputs]), strict=True):
        drawn = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == len(trials.mask)]
        expected = [panel[:, 2, channel] for channel in range(panels[0].shape[2]) for panel in panels]
        assert len(drawn) == len(expected)
        rows = np.repeat(ax.get_yticks() if len(expected) > 2 or panels[0] is scaled else [0.0], len(panels))
        for values, place, wanted in zip(drawn, rows, expected, strict=True):
            np.testing.assert_allclose(values - place, wanted, atol=1e-6)
        assert len(ax.patches) == (~trials.mask).sum(), "one shade for each step that does not count"
    figure.canvas.draw()


def test_rows_of_a_trial_do_not_overlap(figure):
    outputs = np.array([1.0, -1.0, 3.0, -2.0, 0.0, 0.5]).reshape(3, 1, 2)
    trials = ts.Trials(np.zeros((3, 1, 1)), np.zeros((3, 1, 2)), np.ones(3, bool))
    _, below = ts.plotting.trial(trials, outputs)
    first, second = below.lines[2].get_ydata(), below.lines[5].get_ydata()
    assert first.min() > second.max()
    assert below.get_ylim()[0] < second.min() and first.max() < below.get_ylim()[1]


def test_several_trials_share_names_and_legend(solutions, figure):
    trials = solutions.recipe.evaluation_trials(2)
    columns = figure.subplots(2, 2).T
    for trial, axes in enumerate(columns):
        ts.plotting.trial(trials, trials.targets, trial, ["a", "b", "c"], axes)
    figure.canvas.draw()
    names = [[tick.label1.get_text() for tick in above.yaxis.get_major_ticks() if tick.label1.get_visible()]
             for above, _ in columns]  # fmt: skip
    assert names == [["a", "b", "c"], []]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["input", "target", "output"]


def test_every_input_of_a_trial_has_a_name(solutions, figure):
    trials = solutions.recipe.evaluation_trials(2)
    with pytest.raises(ValueError, match="3 channels, but 1 names"):
        ts.plotting.trial(trials, trials.targets, inputs=["a"])


def test_spectrum_draws_every_eigenvalue(solutions, ax):
    schur = ts.ordered_schur(solutions.weights.W_hh[0])
    ts.plotting.spectrum(schur, ax=ax)
    drawn = np.concatenate([line.get_xdata() + 1j * line.get_ydata() for line in ax.lines[1:]])
    expected = np.linalg.eigvals(schur.W)
    assert len(drawn) == 64
    assert np.abs(drawn[:, None] - expected).min(axis=1).max() < 1e-9


@pytest.mark.filterwarnings("ignore::tasksym.SplitWarning")  # 0.4 cuts through a crowd of eigenvalues
@pytest.mark.parametrize(
    "alpha, names",
    [(0.9, {"RR", "CR", "CC"}), (0.4, {"RR", "CR", "CC"}), (0.05, {"RR", "CR", "CC"}), (1e-4, {"RR"}), (5.0, {"CC"})],
)
def test_schur_form_draws_t(solutions, ax, alpha, names):
    sectors = ts.ordered_schur(solutions.weights.W_hh[0]).sectors(alpha)
    ts.plotting.schur_form(sectors, ax)
    drawn = ax.images[0].get_array()
    for row, height in sectors.schur.blocks:
        for column, width in sectors.schur.blocks:
            part = np.s_[row : row + height, column : column + width]
            np.testing.assert_allclose(drawn[part], np.sqrt((sectors.schur.T[part] ** 2).mean()), atol=1e-12)
    assert {text.get_text() for text in ax.texts} == names, "an empty block has no name"
    ax.figure.canvas.draw()


@pytest.mark.parametrize("column, sets", [("delta_fvu", 7), ("score", 8), ("sensitivity", 7)])
def test_profile_draws_every_seed(solutions, ax, column, sets):
    table = ts.ablation_profile(solutions, solutions.recipe.evaluation_trials(8))
    ts.plotting.profile(table, column, ax)
    points = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(points) == sets
    for line, couplings in zip(points, ts.SETS[-sets:], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), table.loc[table["couplings"] == couplings, column])


def test_orders_draws_the_range_and_order_zero(ax):
    table = pd.DataFrame(
        [
            (seed, order, coupling, seed / 100 + order)
            for seed in (100, 101)
            for order in (0, 1, 2)
            for coupling in ts.COUPLINGS
            if (seed, coupling) != (101, "RR")
        ],
        columns=["seed", "order", "couplings", "delta_fvu"],
    )
    assert ts.plotting.orders(table, ax=ax) is ax
    ends = [[tuple(path[:, 1]) for path in bars.get_segments()] for bars in ax.collections]
    assert ends == [[(1.0, 3.0)], [(1.0, 3.0), (1.01, 3.01)], [(1.0, 3.0), (1.01, 3.01)]]
    points = [list(line.get_ydata()) for line in ax.lines if line.get_marker() == "o"]
    assert points == [[1.0], [1.0, 1.01], [1.0, 1.01]]
    ax.figure.canvas.draw()


def test_dose_draws_every_network_and_a_median_where_half_have_one(ax):
    table = pd.DataFrame(
        [
            (seed, coupling, dose, 2 * dose, seed * dose)
            for seed in (1, 2, 6)
            for coupling in ts.COUPLINGS
            for dose in (0.0, 0.5, 1.0)
            if seed == 1 or coupling != "RR"
        ],
        columns=["seed", "couplings", "dose", "mass", "delta_fvu"],
    )
    assert ts.plotting.dose(table, ax=ax) is ax
    assert len(ax.lines) == 1 + 2 * (3 + 1)
    medians = [line for line in ax.lines if line.get_linewidth() == 2.5]
    assert [line.get_label() for line in medians] == ["CR", "CC"]
    for line in medians:
        np.testing.assert_array_equal(line.get_xydata(), [(0, 0), (1, 1), (2, 2)])


def test_a_table_is_printed_with_three_digits():
    frame = pd.DataFrame(
        {"couplings": ["", "CR"], "fvu": [0.0012345, 1.0], "sensitivity": [np.nan, -12.345], "rank": [3, 3]}
    )
    printed = ts.plotting.table(frame, index="couplings")
    assert list(printed.index) == ["none", "CR"]
    assert printed.to_dict("list") == {"FVU": ["0.00123", "1.00"], "S": ["–", "-12.3"], "rank": [3, 3]}
    assert frame["fvu"][0] == 0.0012345, "the table itself is not changed"


def test_families_draws_every_network_that_has_something_to_remove():
    table = pd.DataFrame(
        {"family": family, "seed": seed, "couplings": coupling, "delta_fvu": 0.1 * seed, "score": 1 - 0.1 * seed,
         "sensitivity": np.nan if (family, coupling) == ("b", "RR") else 1.0, "harmless": seed < 2}
        for family in "ab" for seed in range(5) for coupling in ts.COUPLINGS
    )  # fmt: skip
    axes = ts.plotting.families(table)
    for axis, column in zip(axes, ("delta_fvu", "score"), strict=True):
        points = [line for line in axis.lines if line.get_marker() == "o"]
        assert len(points) == 2 * 5, "a ring line and a dot line for all but one of the six rows"
        for line in points:
            ring = line.get_markerfacecolor() == "white"
            np.testing.assert_allclose(
                line.get_xdata(), table[column].unique()[:2] if ring else table[column].unique()[2:]
            )
    assert [text.get_text() for text in axes[0].texts] == ["a", "b", "nothing to remove"]
    plt.close(axes[0].figure)


def test_against_chance_draws_every_coupling_that_was_tested(ax):
    table = pd.DataFrame(
        {"seed": seed, "couplings": coupling, "delta_fvu": 0.1 * (seed + 1), "low": 0.01, "median": 0.02 + 0.01 * seed,
         "high": 0.09, "p": np.nan if (coupling, seed) == ("RR", 0) else 0.5}
        for seed in range(3) for coupling in ts.COUPLINGS
    )  # fmt: skip
    assert ts.plotting.against_chance(table, ax=ax) is ax
    points = {line.get_label(): line for line in ax.lines if line.get_marker() == "o"}
    assert list(points) == list(ts.COUPLINGS)
    np.testing.assert_allclose(points["RR"].get_xydata(), [(0.03, 0.2), (0.04, 0.3)])
    np.testing.assert_allclose(points["CC"].get_xydata(), [(0.02, 0.1), (0.03, 0.2), (0.04, 0.3)])
    (bar, *_) = ax.collections[0].get_segments()
    np.testing.assert_allclose(bar, [(0.01, 0.2), (0.09, 0.2)])
    (diagonal,) = (line for line in ax.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(*diagonal.get_data())
