# ruff: noqa: E501 (a row of the table is a line)
"""Wrong calls: each is answered by this package, in a sentence that says what was given and what to do.

python tests/test_wrong_calls.py prints the table.
"""

import traceback
from pathlib import Path

import numpy as np
import pytest
import torch

import tasksym as ts

PACKAGE = Path(ts.__file__).parent
W = np.diag([1.0, 0.5])
TASK = ts.FlipFlop(bits=1, steps=4)
TRIALS = TASK.sample(3, rng=0)
ONES = torch.ones(1, 2, 2)
INPUTS, MASK = np.ones((1, 4, 3, 1)), np.ones(4, dtype=bool)


LAYER, ATTENTION, WIDE = ts.Bilinear.random(2, 4, 2), ts.BilinearAttention.random(4, 1, 2), np.eye(2, 3)


def with_entry(value):
    matrix = np.eye(4)
    matrix[2, 1] = value
    return matrix


def networks(**matrices):
    return ts.TanhRNN(**({"W_xh": torch.ones(1, 2, 1), "W_hh": ONES, "W_hy": torch.ones(1, 1, 2)} | matrices))


def spoilt(module):
    """What training that diverges leaves behind."""
    for parameter in module.parameters():
        parameter.data.fill_(torch.nan)
    return module


# what is wrong: (the call, what the message must say)
CALLS = {
    "NaN in W": (lambda: ts.ordered_schur(with_entry(np.nan)), r"W must be finite, but W\[2, 1\] is nan"),
    "infinity in W": (lambda: ts.ordered_schur(with_entry(-np.inf)), r"W\[2, 1\] is -inf"),
    "non-square W": (lambda: ts.ordered_schur(np.ones((3, 4))), r"square matrix, got shape \(3, 4\)"),
    "batch of W": (lambda: ts.ordered_schur(np.ones((2, 3, 3))), r"pass one matrix at a time, as in ordered_schur\(W\[0\]\)"),
    "empty W": (lambda: ts.ordered_schur(np.ones((0, 0))), r"non-empty square matrix, got shape \(0, 0\)"),
    "complex W": (lambda: ts.ordered_schur(1j * W), r"W must be real, got complex128"),
    "text for W": (lambda: ts.ordered_schur("W"), r"W must hold numbers, got dtype <U1"),
    "ragged W": (lambda: ts.ordered_schur([[1, 2], [3]]), r"W must be a rectangular array of numbers"),
    "boolean W": (lambda: ts.ordered_schur(W > 0), r"W must hold numbers, got dtype bool"),
    "negative alpha": (lambda: ts.ordered_schur(W).sectors(-0.9), r"alpha must be a finite number in \(0, inf\), got -0.9"),
    "NaN for alpha": (lambda: ts.ordered_schur(W).sectors(np.nan), r"alpha must be a finite number .* got nan"),
    "text for alpha": (lambda: ts.ordered_schur(W).sectors("0.9"), r"alpha must be a number, got '0.9'"),
    "alpha of a profile": (lambda: ts.ablation_profile(ts.reference("flip-flop"), TRIALS, alpha=0), r"alpha must be .* got 0"),
    "unknown coupling": (lambda: ts.ordered_schur(W).sectors().ablate("RC"), r"couplings are RR, CR and CC, .* got 'RC'"),
    "couplings by comma": (lambda: ts.ordered_schur(W).sectors().ablate("RR,CC"), r"joined by '\+' as in 'RR\+CC'; got 'RR,CC'"),
    "couplings by number": (lambda: ts.ordered_schur(W).sectors().ablate(3), r"couplings are RR, CR and CC, .* got 3"),
    "dose of two": (lambda: ts.ordered_schur(W).sectors().ablate("CR", dose=2), r"dose must be a finite number in \[0, 1\], got 2"),
    "unknown null": (lambda: ts.null_distribution(ts.reference("flip-flop"), 0, "CC", "equal rank"), r"null must be one of 'equal mass', 'equal dimension', got 'equal rank'"),
    "unknown null of a table": (lambda: ts.size_matched(ts.reference("flip-flop"), ["mass"], trials=TRIALS), r"null must be one of .* got 'mass'"),
    "null of no coupling": (lambda: ts.null_distribution(ts.reference("flip-flop"), 0, "RC"), r"couplings are RR, CR and CC, .* got 'RC'"),
    "no draws": (lambda: ts.size_matched(ts.reference("flip-flop"), draws=0), r"draws must be at least 1, got 0"),
    "false discovery rate of two": (lambda: ts.verdicts(None, level=2), r"level must be a finite number in \(0, 1\], got 2"),
    "tolerance of nothing": (lambda: ts.readout_confound(ts.reference("flip-flop"), tolerance=0), r"tolerance must be .* got 0"),
    "unknown repair": (lambda: ts.repairs(ts.reference("flip-flop"), kinds=["glue"]), r"kinds must be among none, decoder, encoder, norm; got 'glue'"),
    "refit without iterations": (lambda: ts.refit_encoder(ts.reference("flip-flop").weights, TRIALS, 0), r"iterations must be at least 1, got 0"),
    "unknown sector": (lambda: ts.ordered_schur(W).sectors().basis("B"), r"sector must be 'R' or 'C', got 'B'"),
    "order that is none": (lambda: ts.ordered_schur(W).reordered([0, 0]), r"permutation of the 2 blocks, got \[0, 0\]"),
    "zero trials": (lambda: TASK.sample(0, rng=0), r"trials must be at least 1, got 0"),
    "half a trial": (lambda: TASK.sample(0.5, rng=0), r"trials must be a whole number, got 0.5"),
    "no seed": (lambda: TASK.sample(3, rng=None), r"rng must be a seed \(an int\) or a numpy Generator, got None"),
    "probability of two": (lambda: ts.FlipFlop(pulse_probability=2), r"pulse_probability must be .* in \[0, 1\], got 2"),
    "no bits": (lambda: ts.FlipFlop(bits=0), r"bits must be at least 1, got 0"),
    "outputs of other trials": (lambda: TASK.score(np.ones((4, 2, 1)), TRIALS), r"outputs must end in .* \(4, 3, 1\), got shape \(4, 2, 1\)"),
    "NaN outputs": (lambda: ts.fvu(np.full((4, 3, 1), np.nan), TRIALS), r"outputs must be finite, but outputs\[0, 0, 0\] is nan \(12"),
    "layer of other shapes": (lambda: ts.Bilinear(np.eye(2), np.ones((3, 4)), np.ones((3, 4))), r"D must be \(out, hidden\) and L and R \(hidden, 1 \+ in\), got \(2, 2\), \(3, 4\) and \(3, 4\)"),
    "layer without inputs": (lambda: ts.Bilinear(np.eye(2), np.ones((2, 1)), np.ones((2, 1))), r"L and R \(hidden, 1 \+ in\), got .* \(2, 1\)"),
    "layer of vectors": (lambda: ts.Bilinear(np.ones(2), W, W), r"D must be a non-empty matrix, got shape \(2,\)"),
    "NaN in a layer": (lambda: ts.Bilinear(W * np.nan, W, W), r"D must be finite, but D\[0, 0\] is nan"),
    "inputs of another layer": (lambda: LAYER(np.ones((5, 3))), r"inputs must have shape \(..., 2\), got \(5, 3\)"),
    "no hidden units": (lambda: ts.Bilinear.random(2, 0, 2), r"hidden must be at least 1, got 0"),
    "residual that is not square": (lambda: ts.BilinearStack([ts.Bilinear.random(2, 4, 3)], residual=True), r"residual connection needs as many outputs as inputs, got 3 and 2"),
    "residuals of other layers": (lambda: ts.BilinearStack([LAYER], residual=[True, False]), r"one bool, or one for each of 1 layers; got 2"),
    "layers that do not fit": (lambda: ts.gram([LAYER, ts.Bilinear.random(3, 4, 2)], LAYER), r"A\[1\] takes 3 inputs, but A\[0\] gives 2"),
    "embedding that does not fit": (lambda: ts.BilinearStack([LAYER], embedding=np.ones((3, 4))), r"embedding must have 2 rows, the inputs of the layer; got \(3, 4\)"),
    "head that does not fit": (lambda: ts.BilinearStack([LAYER], head=np.ones((3, 4))), r"head must have 2 columns, the outputs of the layer; got \(3, 4\)"),
    "stack of nothing": (lambda: ts.similarity([], LAYER), r"A must hold at least one layer"),
    "stack of matrices": (lambda: ts.similarity(LAYER, [W]), r"B\[0\] must be a Bilinear layer, got ndarray"),
    "number for a network": (lambda: ts.similarity(LAYER, 3), r"B must be a list of Bilinear layers, got int"),
    "networks of other depth": (lambda: ts.similarity(LAYER, [LAYER, LAYER]), r"equally deep, got 1 and 2 layers; append Bilinear.identity"),
    "networks of other inputs": (lambda: ts.gram(LAYER, ts.Bilinear.random(3, 4, 2)), r"A and B must take the same inputs, got 2 and 3 of them"),
    "networks of other outputs": (lambda: ts.distance(LAYER, ts.Bilinear.random(2, 4, 3)), r"A and B must have the same outputs, got 2 and 3 of them"),
    "weights that became NaN": (lambda: ts.similarity(LAYER, spoilt(ts.Bilinear.random(2, 4, 2))), r"B\[0\].D must be finite, but B\[0\].D\[0, 0\] is nan"),
    "unknown metric": (lambda: ts.gram(LAYER, LAYER, "cosine"), r"metric must be one of 'gauss', 'sym', 'raw', got 'cosine'"),
    "unknown method": (lambda: ts.gram(LAYER, LAYER, method="monte carlo"), r"method must be one of 'auto', 'exact', 'closure', got 'monte carlo'"),
    "exact at depth three": (lambda: ts.similarity([LAYER] * 3, [LAYER] * 3, method="exact"), r"at most 2 layers, got 3; use 'closure', or monte_carlo"),
    "second moment without the 1": (lambda: ts.gram(LAYER, LAYER, second_moment=np.eye(2)), r"second_moment must be E\[x̃ x̃ᵀ\] of x̃ = \(1, x\), of shape \(3, 3\); got \(2, 2\)"),
    "second moment that is none": (lambda: ts.gram(LAYER, LAYER, second_moment=np.diag([1, 1, -0.5])), r"positive semi-definite, .* has the eigenvalue -0.5"),
    "second moment below the mean's": (lambda: ts.gram(LAYER, LAYER, second_moment=[[1, 2, 0], [2, 1, 0], [0, 0, 1]]), r"positive semi-definite, .* has the eigenvalue -1"),
    "second moment of another constant": (lambda: ts.gram(LAYER, LAYER, second_moment=2 * np.eye(3)), r"must have 1 in its corner, .* under 'gauss'; got 2"),
    "second moment on one side": (lambda: ts.gram(LAYER, LAYER, second_moment=np.triu(np.ones((3, 3)))), r"second_moment must be symmetric"),
    "NaN in the second moment": (lambda: ts.gram(LAYER, LAYER, second_moment=np.eye(3) * np.nan), r"second_moment must be finite"),
    "output that is not there": (lambda: ts.similarity(LAYER, LAYER, outputs=[0, 2]), r"outputs must name some of 2 outputs, 0 to 1; got \[0, 2\]"),
    "no outputs": (lambda: ts.similarity(LAYER, LAYER, outputs=[]), r"outputs must name some of 2 outputs"),
    "output by name": (lambda: ts.distance(LAYER, LAYER, outputs="9"), r"outputs must be a whole number, got '9'"),
    "similarity with zero": (lambda: ts.similarity(LAYER, LAYER.then(np.zeros((2, 2)))), r"B is zero on these outputs"),
    "distance from zero": (lambda: ts.distance(LAYER.then(np.zeros((2, 2))), LAYER), r"A is zero on these outputs"),
    "weights beyond float64": (lambda: ts.similarity(LAYER, ts.Bilinear(1e200 * W, W @ WIDE, WIDE)), r"exceed float64, .* scale the weights down"),
    "samples beyond float64": (lambda: ts.monte_carlo(LAYER, ts.Bilinear(1e200 * W, W @ WIDE, WIDE), 9), r"exceed float64"),
    "attention beyond float64": (lambda: ts.attention_gram(ATTENTION, ATTENTION, 3, np.eye(4) * 1e80), r"exceed float64"),
    "one sample": (lambda: ts.monte_carlo(LAYER, LAYER, samples=1), r"samples must be at least 2, got 1"),
    "mean of another length": (lambda: ts.moment_matrix([0, 0], np.eye(3)), r"mean must be \(in,\) and covariance \(in, in\), got \(2,\) and \(3, 3\)"),
    "attention of other shapes": (lambda: ts.BilinearAttention(np.ones((2, 1, 2, 4)), np.ones((2, 1, 2, 4)), np.ones((1, 2, 4)), np.ones((1, 2, 4))), r"O \(head, width, size\), got .* and \(1, 2, 4\)"),
    "rotations of an odd size": (lambda: ts.BilinearAttention.random(4, 1, 3), r"size must be even, got 3; or set rotary=False"),
    "attention of other widths": (lambda: ts.AttentionStack([ATTENTION, ts.BilinearAttention.random(6, 1, 2)]), r"layers must share one width, got \[4, 6\]"),
    "embedding of another width": (lambda: ts.AttentionStack([ATTENTION], embedding=np.ones((3, 5))), r"embedding must have 4 rows, the width; got \(3, 5\)"),
    "head of another width": (lambda: ts.AttentionStack([ATTENTION], head=np.ones((5, 3))), r"head must have 4 columns, the width; got \(5, 3\)"),
    "bilinear layer for attention": (lambda: ts.attention_similarity(ATTENTION, [LAYER], 3), r"B\[0\] must be a BilinearAttention layer, got Bilinear"),
    "attention of other depth": (lambda: ts.attention_gram(ATTENTION, [ATTENTION, ATTENTION], 3), r"equally deep, got 1 and 2 layers"),
    "attention of other inputs": (lambda: ts.attention_gram(ATTENTION, ts.BilinearAttention.random(6, 1, 2), 3), r"A and B must take the same inputs, got 4 and 6 of them"),
    "attention of other outputs": (lambda: ts.attention_similarity(ATTENTION, ts.AttentionStack([ATTENTION], head=np.ones((3, 4))), 3), r"the same outputs, got 4 and 3 of them"),
    "attention exact at depth two": (lambda: ts.attention_gram([ATTENTION] * 2, [ATTENTION] * 2, 3, method="exact"), r"knows one layer of attention, got 2; use 'closure'"),
    "attention by an unknown method": (lambda: ts.attention_gram(ATTENTION, ATTENTION, 3, method="sym"), r"method must be one of .* got 'sym'"),
    "no positions": (lambda: ts.attention_gram(ATTENTION, ATTENTION, 0), r"positions must be at least 1, got 0"),
    "lifted second moment of attention": (lambda: ts.attention_gram(ATTENTION, ATTENTION, 3, np.eye(5)), r"E\[x xᵀ\] of .*, of shape \(4, 4\); got \(5, 5\)"),
    "attention that became NaN": (lambda: ts.attention_gram(ATTENTION, spoilt(ts.BilinearAttention.random(4, 1, 2)), 3), r"B.layers.0.Q must be finite"),
    "activations of other samples": (lambda: ts.linear_cka(np.ones((3, 2)), np.ones((4, 2))), r"of the same samples; got \(3, 2\) and \(4, 2\)"),
    "activations without change": (lambda: ts.linear_cka(np.ones((3, 2)), np.eye(3)), r"X is the same in all samples"),
    "parameters of other shapes": (lambda: ts.matrix_cosine(LAYER, ts.Bilinear.random(2, 5, 2)), r"A and B must have parameters of the same shapes"),
    "behaviour of other shapes": (lambda: ts.behavioural_cosine(LAYER, ts.Bilinear.random(2, 4, 3), np.ones((5, 2))), r"outputs of one shape, got \(5, 2\) and \(5, 3\)"),
    "behaviour without outputs": (lambda: ts.behavioural_cosine(LAYER, LAYER.then(np.zeros((2, 2))), np.ones((5, 2))), r"cosine with a vector of zeros is undefined"),
    "inputs without trials": (lambda: ts.Trials(np.ones((4, 1)), np.ones((4, 3, 1)), np.ones(4, bool)), r"inputs must have the axes \(time, trial, channel\)"),
    "mask of numbers": (lambda: ts.Trials(np.ones((4, 3, 1)), np.ones((4, 3, 1)), np.ones(4)), r"mask must be boolean"),
    "empty mask": (lambda: ts.Trials(np.ones((4, 3, 1)), np.ones((4, 3, 1)), np.zeros(4, bool)), r"mask must select at least one step"),
    "NaN weights": (lambda: networks(W_hh=ONES * torch.nan), r"W_hh must be finite, but W_hh\[0, 0, 0\] is nan \(4 such entries\)"),
    "weights of one network": (lambda: networks(W_hh=ONES[0]), r"W_hh must have three axes, the first counting networks; got shape \(2, 2\)"),
    "weights that do not fit": (lambda: networks(W_xh=torch.ones(1, 3, 1)), r"W_xh must have shape \(1, 2, 1\), got \(1, 3, 1\)"),
    "weights as integers": (lambda: networks(W_hh=ONES.int()), r"W_hh must be a floating torch.Tensor, got torch.int32"),
    "mixed precision": (lambda: networks(W_hh=ONES.double()), r"must share one dtype"),
    "inputs of another task": (lambda: networks().outputs(np.ones((4, 3, 5))), r"inputs must have shape \(time, trial, 1\).*got \(4, 3, 5\)"),
    "trials of another task": (lambda: ts.ablation_profile(ts.reference("flip-flop"), TRIALS), r"inputs must have shape \(time, trial, 3\)"),
    "trials that are none": (lambda: ts.ablation_profile(ts.reference("flip-flop"), 512), r"trials must be Trials, such as recipe.evaluation_trials\(512\); got 512"),
    "negative width": (lambda: ts.Recipe(TASK, hidden=-64), r"hidden must be at least 1, got -64"),
    "infinite rate": (lambda: ts.Recipe(TASK, learning_rate=np.inf), r"learning_rate must be a finite number in \(0, inf\), got inf"),
    "one symbol": (lambda: ts.Copy(symbols=1), r"symbols must be at least 2, got 1"),
    "empty sequence": (lambda: ts.Copy(length=0), r"length must be at least 1, got 0"),
    "frequency above a half": (lambda: ts.SineGeneration(high=0.6), r"high must be .* in \(0, 0.5\], got 0.6"),
    "band upside down": (lambda: ts.SineGeneration(low=0.2, high=0.1), r"low must be .* in \(0, 0.1\], got 0.2"),
    "no amplitude": (lambda: ts.SineGeneration(amplitude=0), r"amplitude must be .* got 0"),
    "negative noise": (lambda: ts.ContextIntegration(noise=-0.1), r"noise must be .* got -0.1"),
    "streams without means": (lambda: ts.ContextIntegration(mean=0), r"mean must be .* got 0"),
    "unknown parametrisation": (lambda: ts.Recipe(TASK, parametrisation="expm"), r"parametrisation must be one of dense, cayley, got 'expm'"),
    "targets of other trials": (lambda: ts.loss(networks(), INPUTS, INPUTS[:, :2], MASK), r"targets must have shape \(network, time, trial, out\) = \(1, 4, 3, 1\), got \(1, 2, 3, 1\)"),
    "loss mask of numbers": (lambda: ts.loss(networks(), INPUTS, INPUTS, np.ones(4)), r"mask must be boolean with shape \(time,\) = \(4,\) or .* got torch.float64 \(4,\)"),
    "loss mask of trials": (lambda: ts.loss(networks(), INPUTS, INPUTS, MASK[:3]), r"mask must be boolean with shape .* got torch.bool \(3,\)"),
    "loss over nothing": (lambda: ts.loss(networks(), INPUTS, INPUTS, ~MASK), r"mask must select at least one step of every network"),
    "unknown start": (lambda: ts.Recipe(TASK, start="zeros"), r"start must be one of gaussian, orthogonal, identity, uniform, got 'zeros'"),
    "task by name": (lambda: ts.Recipe("flip-flop"), r"task must be a task such as FlipFlop\(\)"),
    "recipe by name": (lambda: ts.solve("flip-flop", [0]), r"recipe must be a Recipe, got 'flip-flop'; did you mean RECIPES\['flip-flop'\]\?"),
    "no seeds": (lambda: ts.solve(ts.RECIPES["flip-flop"], []), r"seeds must name at least one network"),
    "one seed": (lambda: ts.solve(ts.RECIPES["flip-flop"], 8), r"seeds must be a collection of whole numbers such as range\(8\), got 8"),
    "repeated seeds": (lambda: ts.solve(ts.RECIPES["flip-flop"], [1, 2, 1]), r"seeds must be distinct, but \[1\] are repeated"),
    "negative seed": (lambda: ts.solve(ts.RECIPES["flip-flop"], [-1]), r"each seed must be at least 0, got -1"),
    "network of no seed": (lambda: ts.reference("flip-flop").of([7]), r"no network has seed 7; there are 100, 101, "),
    "unknown reference": (lambda: ts.reference("flipflop"), r"no recipe is named 'flipflop'; there are copy-dense-orthogonal, copy-cayley, flip-flop, sine, context-integration"),
    "groups of other networks": (lambda: ts.between_share(np.eye(4), [0, 0, 1]), r"groups must have one label a network, shape \(4,\); got shape \(3,\)"),
    "one group": (lambda: ts.separation_test(np.eye(4), [0] * 4), r"groups must name at least 2 groups, got 1"),
    "group of one": (lambda: ts.centroid_accuracy(np.eye(4), list("aaab")), r"at least two networks, but 'b' has 1"),
    "profiles without features": (lambda: ts.between_share(np.ones(4), [0, 0, 1, 1]), r"profiles must end in the axes \(network, feature\), got shape \(4,\)"),
    "bootstrap of one number": (lambda: ts.bootstrap_interval(3.0, np.median), r"values must have an axis that counts networks, got shape \(\)"),
    "level of two": (lambda: ts.bootstrap_interval(np.eye(4), np.median, level=2), r"level must be a finite number in \(0, 1\], got 2"),
    "no resamples": (lambda: ts.permutation_test(np.arange(4), np.sum, resamples=0), r"resamples must be at least 1, got 0"),
    "one network to exchange": (lambda: ts.permutation_test([1.0], np.sum), r"values must have at least two networks to exchange, got shape \(1,\)"),
    "drawn from nowhere": (lambda: ts.centroid_accuracy(np.eye(4), [0, 0, 1, 1], [0, 1, 2, 4]), r"drawn must hold numbers of the 4 networks, got 4"),
    "store that is a file": (lambda: ts.solve(ts.Recipe(TASK, steps=1), [0], store=ts.Store(Path(__file__))), r"cannot write to the store .* set TASKSYM_STORE"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_answered(name):
    call, message = CALLS[name]
    with pytest.raises((ValueError, TypeError, LookupError, ts.StoreError), match=message) as caught:
        call()
    raised_in = Path(traceback.extract_tb(caught.tb)[-1].filename)
    assert raised_in.is_relative_to(PACKAGE), f"raised inside {raised_in}"
    assert caught.value.__cause__ is None


if __name__ == "__main__":
    print("| what is wrong | answer |\n|---|---|")
    for name, (call, _) in CALLS.items():
        try:
            call()
        except Exception as error:
            print(f"| {name} | {type(error).__name__}: {error.args[0]} |")
