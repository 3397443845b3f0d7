# ruff: noqa: E501 (a row of the table is a line)
"""Reading networks and trials of others: every supported form is the same network, every other one is refused."""

import numpy as np
import pytest
import torch
from torch import nn

import tasksym as ts
from tasksym.foreign import solutions_of
from tasksym.rates import ACTIVATIONS

HIDDEN, IN, OUT = 7, 3, 2
INPUTS = np.random.default_rng(0).normal(size=(11, 5, IN))


class Net(nn.Module):
    """As people write it."""

    def __init__(self, nonlinearity="tanh"):
        super().__init__()
        torch.manual_seed(1)
        self.rnn = nn.RNN(IN, HIDDEN, nonlinearity=nonlinearity)
        self.fc = nn.Linear(HIDDEN, OUT)

    def forward(self, x, h_0=None):
        return self.fc(self.rnn(x, h_0)[0])


def arrays(net):
    """The network as plain arrays, its two biases folded into one."""
    state = {key: value.double().numpy() for key, value in net.state_dict().items()}
    return {
        "W_xh": state["rnn.weight_ih_l0"],
        "W_hh": state["rnn.weight_hh_l0"],
        "W_hy": state["fc.weight"],
        "b_h": state["rnn.bias_ih_l0"] + state["rnn.bias_hh_l0"],
        "b_y": state["fc.bias"],
    }


def outputs(network, inputs=INPUTS):
    return network.variants(0, network.W_hh.double()).outputs(inputs)[0].numpy()


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_every_form_is_what_torch_computes(nonlinearity):
    net = Net(nonlinearity)
    expected = net.double()(torch.tensor(INPUTS)).detach().numpy()
    net = Net(nonlinearity)
    cell = nn.RNNCell(IN, HIDDEN, nonlinearity=nonlinearity)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in net.rnn.state_dict().items()})
    folded = arrays(net)
    forms = [
        ts.read_network(net),
        ts.read_network(net.rnn, net.fc),
        ts.read_network(cell, net.fc),
        ts.read_network(net.state_dict(), activation=nonlinearity),
        ts.read_network(net.rnn.state_dict(), net.fc, activation=nonlinearity),
        ts.read_network(folded, activation=nonlinearity),
        ts.read_network({f"model.{key}": value for key, value in folded.items()}, activation=nonlinearity),
    ]
    for network, ignored in forms:
        assert ignored == ()
        np.testing.assert_allclose(outputs(network), expected, atol=1e-10)


def test_readout_as_an_array_has_no_bias():
    net = Net()
    network, _ = ts.read_network(net.rnn, net.fc.weight)
    expected = ts.read_network(net)[0]
    np.testing.assert_allclose(outputs(network) + expected.b_y.numpy(), outputs(expected), atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("leak", [1.0, 0.3])
@pytest.mark.parametrize("trialwise", [False, True])
def test_the_recurrence_is_its_definition(activation, leak, trialwise):
    given, rng = arrays(Net()), np.random.default_rng(2)
    h_0 = rng.normal(size=(5, HIDDEN) if trialwise else HIDDEN)
    network, _ = ts.read_network(given, leak=leak, activation=activation, initial_state=h_0)
    f = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "linear": lambda x: x}[activation]
    h, states = np.broadcast_to(h_0, (5, HIDDEN)), []
    for x in INPUTS:
        h = (1 - leak) * h + leak * f(x @ given["W_xh"].T + h @ given["W_hh"].T + given["b_h"])
        states.append(h)
    expected = np.array(states) @ given["W_hy"].T + given["b_y"]
    np.testing.assert_allclose(outputs(network), expected, atol=1e-12)
    rolled = network.variants(0, network.W_hh).rollout(INPUTS)
    np.testing.assert_allclose(rolled[0][0], states, atol=1e-12)
    np.testing.assert_allclose(rolled[1][0], expected, atol=1e-12)


def test_many_variants_and_trials_are_the_same_as_few(monkeypatch):
    network, _ = ts.read_network(arrays(Net()), initial_state=np.random.default_rng(0).normal(size=(5, HIDDEN)))
    matrices = network.W_hh * torch.linspace(0.1, 1, 9, dtype=torch.float64)[:, None, None]
    expected = network.variants(0, matrices).outputs(INPUTS)
    monkeypatch.setattr("tasksym.networks.CHUNK_BYTES", 3 * 8 * HIDDEN)
    torch.testing.assert_close(network.variants(0, matrices).outputs(INPUTS), expected)


def test_the_step_of_a_leaky_network_is_its_jacobian_at_rest():
    given = arrays(Net()) | {"b_h": np.zeros(HIDDEN)}
    network, _ = ts.read_network(given, leak=0.3)

    def step(h):
        return (1 - 0.3) * h + 0.3 * torch.tanh(h @ torch.tensor(given["W_hh"]).T)

    expected = torch.autograd.functional.jacobian(step, torch.zeros(HIDDEN, dtype=torch.float64))
    np.testing.assert_allclose(network.W_hh[0], expected, atol=1e-14)
    again = network.variants(0, network.W_hh).recurrent[0]
    np.testing.assert_allclose(again, given["W_hh"], atol=1e-14)


def test_leak_one_is_no_leak():
    network, _ = ts.read_network(Net().state_dict(), leak=1)
    assert network.W_hh is network.recurrent and network.W_hh.dtype == torch.float32


def test_a_readout_that_the_model_holds_too_is_not_passed_over():
    net = Net()
    for model in (net, net.state_dict()):
        network, ignored = ts.read_network(model, net.fc)
        assert ignored == ()
        np.testing.assert_array_equal(outputs(network), outputs(ts.read_network(net)[0]))
    assert ts.read_network(net, net.fc.weight)[1] == ("fc.bias",)
    assert ts.read_network(net, nn.Linear(HIDDEN, OUT))[1] == ("fc.weight", "fc.bias")


def test_half_precision_is_read():
    state = {key: value.bfloat16() for key, value in Net().state_dict().items()}
    network, _ = ts.read_network(state)
    np.testing.assert_array_equal(network.W_hh[0], state["rnn.weight_hh_l0"].float())


def test_keys_that_mean_nothing_are_reported():
    state = Net().state_dict() | {"step": torch.tensor(3), "optimiser.lr": torch.tensor(0.1)}
    assert ts.read_network(state)[1] == ("step", "optimiser.lr")


TARGETS = np.zeros((11, 5, OUT))
MASK = np.arange(11) > 2


@pytest.mark.parametrize(
    "given",
    [
        (INPUTS, TARGETS, MASK),
        [torch.tensor(INPUTS), torch.tensor(TARGETS), torch.tensor(MASK)],
        {"inputs": INPUTS, "targets": TARGETS, "mask": MASK},
        ts.Trials(INPUTS, TARGETS, MASK),
        lambda: (INPUTS, TARGETS, MASK),
        lambda: {"mask": MASK, "inputs": INPUTS, "targets": TARGETS},
    ],
)
def test_trials_come_in_many_forms(given):
    for read, expected in zip(ts.read_trials(given), (INPUTS, TARGETS, MASK), strict=True):
        np.testing.assert_array_equal(read, expected)


def test_batch_first_swaps_the_axes():
    inputs, targets, mask = ts.read_trials((INPUTS.swapaxes(0, 1), TARGETS.swapaxes(0, 1)), batch_first=True)
    np.testing.assert_array_equal(inputs, INPUTS)
    assert targets.shape == TARGETS.shape and mask.all() and len(mask) == 11
    assert ts.read_trials(INPUTS)[1] is None


def test_without_targets_the_network_judges_itself():
    network, _ = ts.read_network(arrays(Net()))
    table = ts.ablation_profile(solutions_of(network, INPUTS), alpha=0.4)
    assert table["fvu"][0] == 0 and (table["fvu"][1:] >= 0).all()


def test_a_score_sees_the_axes_that_were_given():
    seen = []

    def score(outputs, targets):
        seen.append((outputs.shape, targets.shape))
        return 0.5

    network, _ = ts.read_network(arrays(Net()))
    solutions = solutions_of(network, (INPUTS.swapaxes(0, 1), None), score, batch_first=True)
    trials = solutions.recipe.evaluation_trials()
    assert solutions.recipe.task.score(np.zeros((4, *trials.targets.shape)), trials).tolist() == [0.5] * 4
    assert seen == [((5, 11, OUT), (5, 11, OUT))] * 4


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_score_sees_only_the_steps_that_count(batch_first):
    """As the FVU does: a cue that must not be answered yet is not a wrong answer."""
    inputs, targets = (array.swapaxes(0, 1) if batch_first else array for array in (INPUTS, TARGETS))
    seen = []

    def score(outputs, targets):
        seen.append((outputs.shape, targets.shape, float(outputs.min())))
        return 1

    solutions = solutions_of(ts.read_network(GIVEN)[0], (inputs, targets, MASK), score, batch_first=batch_first)
    trials = solutions.recipe.evaluation_trials()
    outputs = np.where(MASK[:, None, None], 1.0, -1.0) * np.ones_like(trials.targets)
    solutions.recipe.task.score(outputs, trials)
    shape = (5, 8, OUT) if batch_first else (8, 5, OUT)
    assert seen == [(shape, shape, 1.0)]


STATE = Net().state_dict()
GIVEN = arrays(Net())
REFUSED = {
    "LSTM": (lambda: ts.read_network(nn.LSTM(IN, HIDDEN)), r"LSTM is not supported: a gated network"),
    "GRU inside a module": (lambda: ts.read_network(nn.Sequential(nn.GRU(IN, HIDDEN))), r"GRU is not supported"),
    "two layers": (lambda: ts.read_network(nn.RNN(IN, HIDDEN, num_layers=2)), r"several layers or directions.*one layer"),
    "two directions": (lambda: ts.read_network(nn.RNN(IN, HIDDEN, bidirectional=True)), r"several layers or directions"),
    "state of two layers": (lambda: ts.read_network(nn.RNN(IN, HIDDEN, 2).state_dict()), r"weight_ih_l1: there are several"),
    "state of two directions": (lambda: ts.read_network(nn.RNN(IN, 7, bidirectional=True).state_dict()), r"_reverse: there are"),
    "state of a GRU": (lambda: ts.read_network(nn.GRU(IN, HIDDEN).state_dict()), r"W_hh has 3 blocks of 7 rows: a gated"),
    "state of an LSTM": (lambda: ts.read_network(nn.LSTM(IN, HIDDEN).state_dict()), r"W_hh has 4 blocks of 7 rows: a gated"),
    "no recurrent layer": (lambda: ts.read_network(nn.Linear(3, 3)), r"must hold one torch.nn.RNN, but has 0"),
    "two recurrent layers": (lambda: ts.read_network(nn.ModuleList([nn.RNN(3, 3), nn.RNN(3, 3)])), r"but has 2"),
    "a list": (lambda: ts.read_network([1, 2]), r"a state_dict or a mapping of arrays, got list"),
    "no recurrent matrix": (lambda: ts.read_network({"W_xh": np.eye(3)}), r"must have W_hh or W_rec or .*; got the keys W_xh"),
    "no readout": (lambda: ts.read_network(nn.RNN(IN, HIDDEN)), r"a readout is needed, and no matrix .*array \(out, 7\)"),
    "two readouts": (lambda: ts.read_network(STATE | {"head.weight": torch.ones(1, 7)}), r"could be it: fc.weight, head.weight"),
    "readout of other units": (lambda: ts.read_network(GIVEN, np.ones((2, 6))), r"W_hy must have shape \(2, 7\) .* got \(2, 6\)"),
    "encoder of other units": (lambda: ts.read_network(GIVEN | {"W_xh": np.ones((6, 3))}), r"W_xh must have shape \(7, 3\)"),
    "bias of other units": (lambda: ts.read_network(GIVEN | {"b_h": np.ones(6)}), r"b_h must have shape \(7,\)"),
    "initial state of other units": (lambda: ts.read_network(GIVEN, initial_state=np.ones(6)), r"initial_state must have shape"),
    "NaN in a state": (lambda: ts.read_network(STATE | {"rnn.bias_hh_l0": torch.full((7,), torch.nan)}), r"rnn.bias_hh_l0\[0\] is nan"),
    "complex weights": (lambda: ts.read_network(GIVEN | {"W_hh": 1j * np.eye(7)}), r"W_hh must be real"),
    "leak of two": (lambda: ts.read_network(GIVEN, leak=2), r"leak must be a finite number in \(0, 1\], got 2"),
    "unknown activation": (lambda: ts.read_network(GIVEN, activation="gelu"), r"one of tanh, relu, linear, got 'gelu'"),
    "other activation than the module's": (lambda: ts.read_network(Net("relu"), activation="tanh"), r"'tanh', but the module says 'relu'"),
    "two matrices of a kind": (lambda: ts.read_network(GIVEN | {"rnn.W_hh": np.eye(7)}), r"rnn.W_hh is a second W_hh"),
    "trials of text": (lambda: ts.read_trials("trials"), r"trials must be inputs, \(inputs, targets\).*got str"),
    "trials without inputs": (lambda: ts.read_trials({"targets": TARGETS}), r"trials must have inputs, got none"),
    "trials with more": (lambda: ts.read_trials({"inputs": INPUTS, "labels": 1}), r"inputs, targets and mask; got 'labels'"),
    "inputs of two axes": (lambda: ts.read_trials(INPUTS[0]), r"axes \(time, trial, channel\), none empty; got shape \(5, 3\)"),
    "inputs of other channels": (lambda: solutions_of(ts.read_network(GIVEN)[0], INPUTS[..., :2]), r"inputs must have 3 channels"),
    "targets of other channels": (lambda: solutions_of(ts.read_network(GIVEN)[0], (INPUTS, INPUTS)), r"targets must have 2 channels"),
    "states of other trials": (lambda: solutions_of(ts.read_network(GIVEN, initial_state=np.ones((4, 7)))[0], INPUTS), r"of 4 trials, but inputs are of 5"),
    "a score of two": (lambda: ts.diagnose(GIVEN, INPUTS, score=lambda outputs, targets: 2, draws=1), r"score\(outputs, targets\) must be .* got 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused_with_the_reason(name):
    call, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()
