"""Bilinear layers and stacks of them: torch modules that train, and whose weights say all that they compute.

The output of a layer is a quadratic form of its input, so that two networks can be compared by their weights alone
(arXiv 2605.15183). A residual connection, an embedding or a head folds into a plain layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasksym import _checks


class Bilinear(nn.Module):
    """One layer, x → D((L x̃) ⊙ (R x̃)) with x̃ = (1, x) (arXiv 2605.15183).

    Parameters
    ----------
    D : array or Tensor (out, hidden)
    L, R : array or Tensor (hidden, 1 + in)
        The first column multiplies the 1. Copied, as D is; float32 stays float32.
    lift : bool
        Without, x̃ = x: there are no constants, and L and R are (hidden, in).

    Raises
    ------
    TypeError, ValueError
        If a matrix is not real and finite, or shapes disagree.
    """

    def __init__(self, D, L, R, *, lift: bool = True):
        super().__init__()
        D, L, R = matrices(D=D, L=L, R=R)
        if not (L.shape == R.shape and D.shape[1] == len(L) and L.shape[1] > lift):
            raise ValueError(
                f"D must be (out, hidden) and L and R (hidden, {'1 + in' if lift else 'in'}), got {tuple(D.shape)}, "
                f"{tuple(L.shape)} and {tuple(R.shape)}"
            )
        self.D, self.L, self.R, self.lift = nn.Parameter(D), nn.Parameter(L), nn.Parameter(R), lift

    @classmethod
    def random(
        cls, inputs: int, hidden: int, outputs: int, *, rng=0, lift: bool = True, dtype: torch.dtype = torch.float32
    ) -> Bilinear:
        """Gaussian weights, for which the outputs are of order 1 where the inputs are.

        Parameters
        ----------
        inputs, hidden, outputs : int
        rng : int or numpy Generator
        lift : bool
        dtype : torch.dtype
        """
        inputs, hidden = _checks.count("inputs", inputs), _checks.count("hidden", hidden)
        rng, outputs = _checks.generator(rng), _checks.count("outputs", outputs)
        columns = lift + inputs
        D = rng.normal(size=(outputs, hidden)) / np.sqrt(hidden)
        L, R = rng.normal(size=(2, hidden, columns)) / np.sqrt(columns)
        return cls(D, L, R, lift=lift).to(dtype)

    @classmethod
    def identity(cls, width: int) -> Bilinear:
        """The layer x → x, of units (x_i)(1): it makes a shallow stack as deep as another."""
        width = _checks.count("width", width)
        return cls(np.zeros((width, 1)), np.zeros((1, 1 + width)), np.zeros((1, 1 + width))).with_residual()

    @property
    def inputs(self) -> int:
        return self.L.shape[1] - self.lift

    @property
    def hidden(self) -> int:
        return self.L.shape[0]

    @property
    def outputs(self) -> int:
        return self.D.shape[0]

    def forward(self, x) -> Tensor:
        """Outputs (..., out) for inputs (..., in)."""
        x = check_inputs(x, self.inputs, self.D.dtype)
        left, right = (
            functional.linear(x, W[:, 1:], W[:, 0]) if self.lift else functional.linear(x, W) for W in (self.L, self.R)
        )
        return functional.linear(left * right, self.D)

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, hidden={self.hidden}, outputs={self.outputs}" + ", lift=False" * (not self.lift)

    @torch.no_grad()
    def lifted(self) -> Bilinear:
        """The same function with a column for the 1, which is zero if there was none."""
        if self.lift:
            return self
        return Bilinear(self.D, *(functional.pad(W, (1, 0)) for W in (self.L, self.R)))

    @torch.no_grad()
    def after(self, embedding) -> Bilinear:
        """x → self(E x): a linear embedding E (inputs of self, in) folded into L and R."""
        (E,) = matrices(embedding=embedding)
        if len(E) != self.inputs:
            raise ValueError(f"embedding must have {self.inputs} rows, the inputs of the layer; got {tuple(E.shape)}")
        D, E, first = self.D, E.to(self.D.dtype), int(self.lift)
        L, R = (torch.cat([W[:, :first], W[:, first:] @ E], dim=1) for W in (self.L, self.R))
        return Bilinear(D, L, R, lift=self.lift)

    @torch.no_grad()
    def then(self, head) -> Bilinear:
        """x → H self(x): a linear head H (out, outputs of self) folded into D."""
        (H,) = matrices(head=head)
        if H.shape[1] != self.outputs:
            raise ValueError(f"head must have {self.outputs} columns, the outputs of the layer; got {tuple(H.shape)}")
        return Bilinear(H.to(self.D.dtype) @ self.D, self.L, self.R, lift=self.lift)

    @torch.no_grad()
    def centred(self) -> Bilinear:
        """The layer less the mean of its outputs, which softmax does not see."""
        return self.then(torch.eye(self.outputs, dtype=self.D.dtype) - 1 / self.outputs)

    @torch.no_grad()
    def with_residual(self) -> Bilinear:
        """x → x + self(x) as one plain layer, by the units (x_i)(1)."""
        if self.inputs != self.outputs:
            raise ValueError(
                f"a residual connection needs as many outputs as inputs, got {self.outputs} and {self.inputs}"
            )
        plain, one = self.lifted(), torch.eye(1 + self.inputs, dtype=self.D.dtype)
        return Bilinear(
            torch.cat([plain.D, one[1:, 1:]], dim=1),
            torch.cat([plain.L, one[1:]]),
            torch.cat([plain.R, one[:1].expand(self.inputs, -1)]),
        )

    @torch.no_grad()
    def forms(self) -> np.ndarray:
        """Q_o, with which output o is x̃ᵀ Q_o x̃: array (out, 1 + in, 1 + in), symmetric, float64."""
        D, L, R = (W.double().numpy() for W in (self.lifted().D, self.lifted().L, self.lifted().R))
        forms = (D[:, :, None] * L).swapaxes(1, 2) @ R
        return (forms + forms.swapaxes(1, 2)) / 2


class BilinearStack(nn.Module):
    """Bilinear layers in a row: h ← A_t(h), or h ← h + A_t(h), between an optional embedding and an optional head.

    Parameters
    ----------
    layers : iterable of Bilinear
    residual : bool, or one for every layer
    embedding : array or Tensor (inputs of the first layer, in), optional
    head : array or Tensor (out, outputs of the last layer), optional
        Both are linear, without constants, and trained.

    Raises
    ------
    TypeError, ValueError
        If there is no layer, or widths do not fit.
    """

    def __init__(
        self, layers: Iterable[Bilinear], *, residual: bool | Sequence[bool] = False, embedding=None, head=None
    ):
        super().__init__()
        self.layers = nn.ModuleList(check_stack("layers", layers))
        depth = len(self.layers)
        self.residual = (bool(residual),) * depth if np.isscalar(residual) else tuple(map(bool, residual))
        if len(self.residual) != depth:
            raise ValueError(f"residual must be one bool, or one for each of {depth} layers; got {len(self.residual)}")
        dtype = self.layers[0].D.dtype
        self.embedding = None if embedding is None else nn.Parameter(matrices(embedding=embedding)[0].to(dtype))
        self.head = None if head is None else nn.Parameter(matrices(head=head)[0].to(dtype))
        self.folded()  # which finds what does not fit

    @classmethod
    def random(
        cls,
        widths: Sequence[int],
        hidden: int,
        *,
        residual: bool | Sequence[bool] = False,
        rng=0,
        lift: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> BilinearStack:
        """Layers from `Bilinear.random`.

        Parameters
        ----------
        widths : sequence of int
            Inputs, the outputs of each layer in turn: one more than there are layers.
        hidden : int
            Units of each layer.
        residual, rng, lift, dtype
            As for the stack and its layers.
        """
        rng, widths = _checks.generator(rng), list(widths)
        return cls(
            (
                Bilinear.random(before, hidden, after, rng=rng, lift=lift, dtype=dtype)
                for before, after in pairwise(widths)
            ),
            residual=residual,
        )

    def forward(self, x) -> Tensor:
        """Outputs (..., out) for inputs (..., in)."""
        first = self.layers[0]
        h = embedded(x, self.embedding, first.inputs, first.D.dtype)
        for layer, residual in zip(self.layers, self.residual, strict=True):
            h = h + layer(h) if residual else layer(h)
        return h if self.head is None else functional.linear(h, self.head)

    def folded(self) -> list[Bilinear]:
        """The same function as plain layers, copied: residuals become units, embedding and head go into L, R and D."""
        pairs = zip(self.layers, self.residual, strict=True)
        layers = [layer.with_residual() if residual else layer for layer, residual in pairs]
        if self.embedding is not None:
            layers[0] = layers[0].after(self.embedding)
        if self.head is not None:
            layers[-1] = layers[-1].then(self.head)
        return layers

    def centred(self) -> BilinearStack:
        """The stack less the mean of its outputs, which softmax does not see, in plain layers."""
        *layers, last = self.folded()
        return BilinearStack([*layers, last.centred()])


def check_stack(name: str, layers) -> list[Bilinear]:
    """`layers` as a list of Bilinear, each of which takes what the one before it gives."""
    layers = check_modules(name, layers, Bilinear)
    for place, (before, after) in enumerate(pairwise(layers)):
        if before.outputs != after.inputs:
            raise ValueError(
                f"{name}[{place + 1}] takes {after.inputs} inputs, but {name}[{place}] gives {before.outputs}"
            )
    return layers


def check_modules(name: str, layers, kind: type) -> list:
    try:
        layers = list(layers)
    except TypeError:
        raise TypeError(f"{name} must be a list of {kind.__name__} layers, got {type(layers).__name__}") from None
    for place, layer in enumerate(layers):
        if not isinstance(layer, kind):
            raise TypeError(f"{name}[{place}] must be a {kind.__name__} layer, got {type(layer).__name__}")
    if not layers:
        raise ValueError(f"{name} must hold at least one layer")
    return layers


def matrices(**arrays) -> list[Tensor]:
    """Copies in one dtype, float64 unless all are narrower."""
    checked = {name: _checks.real_array(name, value) for name, value in arrays.items()}
    for name, array in checked.items():
        if array.ndim < 2 or 0 in array.shape:
            raise ValueError(f"{name} must be a non-empty matrix, got shape {array.shape}")
    wide = max(array.itemsize for array in checked.values()) > 4
    return [torch.tensor(array.astype(np.float64 if wide else np.float32)) for array in checked.values()]


def check_inputs(x, wanted: int, dtype: torch.dtype) -> Tensor:
    x = torch.as_tensor(x, dtype=dtype)
    if x.ndim < 1 or x.shape[-1] != wanted:
        raise ValueError(f"inputs must have shape (..., {wanted}), got {tuple(x.shape)}")
    return x


def embedded(x, embedding: Tensor | None, width: int, dtype: torch.dtype) -> Tensor:
    if embedding is None:
        return check_inputs(x, width, dtype)
    if (x := torch.as_tensor(x)).dtype == torch.int64:
        return embedding.T[x]
    return functional.linear(check_inputs(x, embedding.shape[1], dtype), embedding)
