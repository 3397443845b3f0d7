"""The gradient written out, against plain autograd over the rollout."""

import dataclasses

import pytest
import torch

import tasksym as ts
from tasksym.networks import tanh_into

WEIGHTS = [field.name for field in dataclasses.fields(ts.TanhRNN)]
NETWORKS, STEPS, TRIALS = 3, 9, 5


def some_networks():
    generator = torch.Generator().manual_seed(0)
    shapes = (NETWORKS, 7, 2), (NETWORKS, 7, 7), (NETWORKS, 4, 7)
    weights = (torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes)
    return ts.TanhRNN(*weights)


def some_trials():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(NETWORKS, STEPS, TRIALS, 2, generator=generator, dtype=torch.float64)
    return inputs, torch.randn(NETWORKS, STEPS, TRIALS, 4, generator=generator, dtype=torch.float64)


def slow_loss(networks, inputs, targets, mask):
    """What `ts.loss` computes, by autograd: the mean over the entries that count, network by network."""
    _, outputs = networks.rollout(inputs)
    counts = mask[None, :, None].expand(NETWORKS, STEPS, TRIALS) if mask.ndim == 1 else mask
    squares = (outputs - targets).square()
    return torch.stack([each[chosen].mean() for each, chosen in zip(squares, counts, strict=True)])


def gradients(value, networks, upstream):
    return torch.autograd.grad((value * upstream).sum(), [getattr(networks, name) for name in WEIGHTS])


def ends(*lengths):
    """Trials that end at steps of their own, (network, time, trial)."""
    lengths = torch.tensor(lengths)
    return (torch.arange(STEPS)[:, None] < lengths[:, None, :]).contiguous()


MASKS = {
    "every step": torch.ones(STEPS, dtype=torch.bool),
    "the last steps": torch.arange(STEPS) >= 5,
    "steps with gaps, none at the end": torch.tensor([1, 0, 0, 1, 1, 0, 1, 0, 0]).bool(),
    "the first step": torch.arange(STEPS) == 0,
    "the last step": torch.arange(STEPS) == STEPS - 1,
    "unequal ends": ends([1, 3, 9, 4, 2], [6, 6, 6, 6, 6], [2, 1, 1, 8, 5]),
    "a trial without steps": ends([0, 3, 9, 4, 2], [7, 0, 0, 0, 0], [2, 1, 0, 8, 5]),
    "scattered": torch.rand(NETWORKS, STEPS, TRIALS, generator=torch.Generator().manual_seed(2)) < 0.4,
}


@pytest.mark.parametrize("name", MASKS)
def test_loss_and_gradient_are_those_of_autograd(name):
    networks, trials, mask = some_networks(), some_trials(), MASKS[name]
    upstream = torch.tensor([1.0, -0.3, 2.5], dtype=torch.float64)
    fast, slow = ts.loss(networks, *trials, mask), slow_loss(networks, *trials, mask)
    torch.testing.assert_close(fast, slow, rtol=1e-13, atol=0)
    pairs = zip(gradients(fast, networks, upstream), gradients(slow, networks, upstream), strict=True)
    for weight, (ours, theirs) in zip(WEIGHTS, pairs, strict=True):
        for network in range(NETWORKS):
            error = (ours[network] - theirs[network]).norm() / theirs[network].norm().clamp(min=1e-300)
            assert error <= 1e-12, f"{weight} of network {network}: {error:.1e}"


def test_gradient_at_the_sizes_of_the_recipes():
    """Every recipe's own start and trials, in float64."""
    for name, recipe in ts.RECIPES.items():
        start = ts.starting_networks(recipe, [0, 1]).to(torch.float64)
        networks = ts.TanhRNN(*(getattr(start, each).clone().requires_grad_() for each in WEIGHTS))
        trials = recipe.task.sample(16, rng=0)
        inputs, targets = (
            torch.tensor(each).double().expand(2, *each.shape) for each in (trials.inputs, trials.targets)
        )
        mask = torch.tensor(trials.mask)
        fast = ts.loss(networks, inputs, targets, mask)
        slow = (networks.rollout(inputs)[1] - targets)[:, mask].square().mean(dim=(1, 2, 3))
        for ours, theirs in zip(gradients(fast, networks, 1), gradients(slow, networks, 1), strict=True):
            assert (ours - theirs).norm() <= 1e-12 * theirs.norm(), name


def test_gradient_is_the_slope():
    """Central differences along a random direction of each weight."""
    networks, trials, mask = some_networks(), some_trials(), MASKS["unequal ends"]
    found = gradients(ts.loss(networks, *trials, mask), networks, 1)
    generator = torch.Generator().manual_seed(3)
    for weight, gradient in zip(WEIGHTS, found, strict=True):
        direction = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        values = []
        for step in (1e-6, -1e-6):
            moved = dataclasses.replace(networks, **{weight: getattr(networks, weight) + step * direction})
            values.append(ts.loss(moved, *trials, mask).sum().item())
        assert (gradient * direction).sum() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-7)


def test_steps_after_the_last_that_counts_are_not_run():
    """Inputs that would overflow there leave loss and gradient as they are."""
    networks, (inputs, targets), mask = some_networks(), some_trials(), torch.arange(STEPS) < 6
    expected = ts.loss(networks, inputs, targets, mask)
    inputs[:, 6:] = torch.nan
    assert torch.equal(ts.loss(networks, inputs, targets, mask), expected)


def test_targets_that_do_not_count_may_be_anything():
    networks, (inputs, targets), mask = some_networks(), some_trials(), MASKS["unequal ends"]
    expected = ts.loss(networks, inputs, targets, mask)
    targets[~mask] = torch.nan
    assert torch.equal(ts.loss(networks, inputs, targets, mask), expected)


def test_loss_without_gradient_and_in_float32():
    networks, trials, mask = some_networks(), some_trials(), MASKS["every step"]
    with torch.no_grad():
        value = ts.loss(networks.to(torch.float32), *trials, mask)
    assert not value.requires_grad and value.dtype == torch.float32
    torch.testing.assert_close(value.double(), slow_loss(networks, *trials, mask).detach(), rtol=1e-4, atol=0)


def test_a_second_derivative_is_refused():
    networks, trials, mask = some_networks(), some_trials(), MASKS["every step"]
    value = ts.loss(networks, *trials, mask).square().sum()
    first = torch.autograd.grad(value, networks.W_hh, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tanh_is_tanh(dtype):
    x = torch.cat([torch.linspace(-30, 30, 10001), torch.logspace(-12, 0, 500), torch.tensor([0.0, 1e3, -1e3])])
    out = torch.empty_like(x, dtype=dtype)
    tanh_into(out, x.to(dtype, copy=True))
    assert (out.double() - torch.tanh(x.double())).abs().max() <= 2 * torch.finfo(dtype).eps
    assert out[x == 0].eq(0).all() and out[x == 1e3].eq(1).all()
