"""Bilinear layers, stacks and attention as modules: against plain loops, folded, and trained."""

import copy
import math

import numpy as np
import pytest
import torch

import tasksym as ts

DOUBLE = torch.float64


def inputs(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def plain(layer, x):
    """The definition, unit by unit."""
    D, L, R = (W.detach().numpy() for W in (layer.D, layer.L, layer.R))
    lifted = np.concatenate([[1.0], x]) if layer.lift else x
    y = np.zeros(len(D))
    for k in range(len(L)):
        y += D[:, k] * (L[k] @ lifted) * (R[k] @ lifted)
    return y


# --- One layer


@pytest.mark.parametrize("lift", [True, False])
def test_a_layer_is_its_definition(lift):
    layer, x = ts.Bilinear.random(4, 6, 3, rng=0, lift=lift, dtype=DOUBLE), inputs(5, 4)
    expected = np.stack([plain(layer, each) for each in x])
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, atol=1e-14)
    np.testing.assert_allclose(layer.lifted()(x).detach().numpy(), expected, atol=1e-14)
    assert (layer.inputs, layer.hidden, layer.outputs) == (4, 6, 3)


def test_a_layer_is_a_quadratic_form_an_output():
    layer, x = ts.Bilinear.random(4, 6, 3, rng=0, dtype=DOUBLE), inputs(5, 4)
    lifted, forms = np.concatenate([np.ones((5, 1)), x], axis=1), layer.forms()
    np.testing.assert_array_equal(forms, forms.swapaxes(1, 2))
    np.testing.assert_allclose(
        np.einsum("ni,oij,nj->no", lifted, forms, lifted), layer(x).detach().numpy(), atol=1e-14
    )


@pytest.mark.parametrize(
    "convert, dtype",
    [
        (np.asarray, torch.float64),
        (lambda W: W.astype(np.float32), torch.float32),
        (lambda W: torch.tensor(W), torch.float64),
        (lambda W: torch.tensor(W, dtype=torch.float32, requires_grad=True), torch.float32),
        (lambda W: W.tolist(), torch.float64),
        (lambda W: (4 * W).astype(int), torch.float64),
    ],
    ids=["array", "float32", "tensor", "with gradient", "list", "integers"],
)
def test_accepted_weights(convert, dtype):
    D, L, R = (convert(inputs(*shape)) for shape in ((2, 3), (3, 5), (3, 5)))
    layer = ts.Bilinear(D, L, R)
    assert layer.D.dtype == layer.L.dtype == layer.R.dtype == dtype
    assert all(p.requires_grad and p.is_leaf for p in layer.parameters())


def test_weights_are_copied():
    L = inputs(3, 5)
    layer = ts.Bilinear(np.ones((2, 3)), L, L)
    with torch.no_grad():
        layer.L.zero_()
    assert L.all() and layer.R.all()


def test_a_random_layer_follows_its_seed_and_keeps_the_scale():
    a, b = (ts.Bilinear.random(50, 400, 20, rng=seed) for seed in (0, 1))
    assert torch.equal(a.D, ts.Bilinear.random(50, 400, 20, rng=0).D)
    assert not torch.equal(a.D, b.D)
    assert a.D.dtype == torch.float32
    assert 0.5 < a(torch.tensor(inputs(1000, 50))).square().mean() < 2


def test_the_identity_and_folding():
    layer, x, rng = (
        ts.Bilinear.random(4, 6, 4, rng=0, dtype=DOUBLE),
        torch.tensor(inputs(5, 4)),
        np.random.default_rng(1),
    )
    E, H, source = rng.normal(size=(4, 7)), rng.normal(size=(2, 4)), torch.tensor(inputs(5, 7))
    torch.testing.assert_close(ts.Bilinear.identity(4)(x), x, rtol=0, atol=0)
    torch.testing.assert_close(layer.with_residual()(x), x + layer(x))
    torch.testing.assert_close(layer.after(E)(source), layer(source @ torch.tensor(E).T))
    torch.testing.assert_close(layer.then(H)(x), layer(x) @ torch.tensor(H).T)
    torch.testing.assert_close(layer.centred()(x), layer(x) - layer(x).mean(dim=-1, keepdim=True))


# --- Stacks


@pytest.mark.parametrize("residual", [False, True, np.True_, (True, False)])
@pytest.mark.parametrize("lift", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_a_stack_is_its_layers_in_turn_and_folds_into_plain_ones(residual, lift, ends):
    rng = np.random.default_rng(0)
    layers = [ts.Bilinear.random(4, 6, 4, rng=rng, lift=lift, dtype=DOUBLE) for _ in range(2)]
    E, H = (rng.normal(size=(4, 5)), rng.normal(size=(3, 4))) if ends else (None, None)
    stack, x = ts.BilinearStack(layers, residual=residual, embedding=E, head=H), inputs(7, 5 if ends else 4)
    h = x @ E.T if ends else x
    for layer, keep in zip(layers, np.broadcast_to(residual, 2), strict=True):
        h = np.stack([plain(layer, each) for each in h]) + keep * h
    expected = h @ H.T if ends else h
    np.testing.assert_allclose(stack(x).detach().numpy(), expected, atol=1e-12)
    folded = torch.tensor(x)
    for layer in stack.folded():
        folded = layer(folded)
    np.testing.assert_allclose(folded.detach().numpy(), expected, atol=1e-12)
    centred = expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(stack.centred()(x).detach().numpy(), centred, atol=1e-12)


def test_a_random_stack():
    stack = ts.BilinearStack.random([4, 5, 3], 6, rng=0, dtype=DOUBLE)
    assert [(layer.inputs, layer.hidden, layer.outputs) for layer in stack.layers] == [(4, 6, 5), (5, 6, 3)]
    assert not torch.equal(stack.layers[0].L[:, :4], stack.layers[1].L[:, :4])


def test_a_stack_trains_and_its_weights_load_again():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    stack = ts.BilinearStack(
        [ts.Bilinear.random(4, 8, 4, rng=rng) for _ in range(2)],
        residual=True,
        embedding=rng.normal(size=(4, 3)),
        head=rng.normal(size=(1, 4)) / 4,
    )
    x = torch.randn(64, 3)
    target, optimiser = x[:, :1] * x[:, 1:2], torch.optim.Adam(stack.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (stack(x) - target).square().mean()
        loss.backward()
        assert all(p.grad.any() for p in stack.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
    fresh = copy.deepcopy(stack)
    for p in fresh.parameters():
        p.data.zero_()
    fresh.load_state_dict(stack.state_dict())
    assert torch.equal(fresh(x), stack(x))


# --- Attention


def plain_attention(layer, x):
    """The definition, position by position and head by head."""
    Q, K, V, O = (W.detach().numpy() for W in (layer.Q, layer.K, layer.V, layer.O))  # noqa: E741
    size, out = V.shape[1], x.copy() if layer.residual else np.zeros_like(x)

    def turned(vector, t):
        if not layer.rotary:
            return vector
        vector = vector.copy()
        for i in range(0, size, 2):
            angle = t * 10_000 ** (-i / size)
            a, b = vector[i], vector[i + 1]
            vector[i], vector[i + 1] = (
                a * math.cos(angle) - b * math.sin(angle),
                a * math.sin(angle) + b * math.cos(angle),
            )
        return vector

    for t in range(len(x)):
        for s in range(t + 1):
            for h in range(len(V)):
                scores = [turned(Q[c, h] @ x[t], t) @ turned(K[c, h] @ x[s], s) for c in (0, 1)]
                out[t] += O[h] @ V[h] @ x[s] * scores[0] * scores[1] / size**2
    return out


@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_attention_is_its_definition(rotary, residual):
    layer = ts.BilinearAttention.random(5, 2, 4, rng=0, rotary=rotary, residual=residual, dtype=DOUBLE)
    x = inputs(3, 6, 5)
    expected = np.stack([plain_attention(layer, each) for each in x])
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, atol=1e-12)


def test_attention_does_not_see_what_comes_later():
    layer, x = ts.BilinearAttention.random(5, 2, 4, rng=0, dtype=DOUBLE), torch.tensor(inputs(6, 5))
    later = x.clone()
    later[4:] = 9
    assert torch.equal(layer(x)[:4], layer(later)[:4])
    assert not torch.equal(layer(x)[4:], layer(later)[4:])


def test_rotary_scores_know_distances_alone():
    turns = ts.attention.rotations(9, 6)
    torch.testing.assert_close(turns[7].T @ turns[3], turns[8].T @ turns[4])
    torch.testing.assert_close(turns.mT @ turns, torch.eye(6, dtype=DOUBLE).expand(9, 6, 6))
    assert not torch.allclose(turns[7].T @ turns[3], turns[7].T @ turns[4])


def test_a_language_model_takes_tokens_and_trains():
    rng = np.random.default_rng(0)
    model = ts.AttentionStack(
        [ts.BilinearAttention.random(8, 2, 4, rng=rng) for _ in range(2)],
        embedding=rng.normal(size=(8, 5)),
        head=rng.normal(size=(5, 8)) / 8,
    )
    tokens = torch.arange(12).reshape(1, 12) % 5
    torch.testing.assert_close(model(tokens), model(torch.nn.functional.one_hot(tokens, 5).float()))
    logits = model(tokens)
    torch.testing.assert_close(model.centred()(tokens), logits - logits.mean(dim=-1, keepdim=True))
    headless = ts.AttentionStack(model.layers)(x := torch.randn(3, 8))
    centred = ts.AttentionStack(model.layers).centred()(x)
    torch.testing.assert_close(centred, headless - headless.mean(dim=-1, keepdim=True))
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for _ in range(40):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens)[0, :-1], tokens[0, 1:])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert all(p.grad.any() for p in model.parameters())
    assert losses[-1] < losses[0] / 2
