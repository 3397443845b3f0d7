"""Bilinear attention: causal attention without softmax, of which every output is a polynomial of degree 5."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasksym import _checks
from tasksym.bilinear import check_inputs, check_modules, embedded, matrices

ROTARY_BASE = 10_000.0


class BilinearAttention(nn.Module):
    """Causal attention without softmax, whose pattern is the product of two scores (arXiv 2605.15183).

    Position t gets Σ_{s ≤ t} Σ_h O_h V_h x_s (q₁·k₁)(q₂·k₂) / size², where q_c = ρ_t Q_ch x_t, k_c = ρ_s K_ch x_s and
    ρ_t is the rotary rotation at position t.

    Parameters
    ----------
    Q, K : array or Tensor (2, head, size, width)
        The two score channels of every head.
    V : array or Tensor (head, size, width)
    O : array or Tensor (head, width, size)
    rotary : bool
        Without, all rotations are 1, and scores do not know how far apart positions are.
    residual : bool
        Add x_t to the output.

    Raises
    ------
    TypeError, ValueError
        If an array is not real and finite, shapes disagree, or rotations are asked for of heads of an odd size.
    """

    def __init__(self, Q, K, V, O, *, rotary: bool = True, residual: bool = True):  # noqa: E741 (the field's own name)
        super().__init__()
        Q, K, V, O = matrices(Q=Q, K=K, V=V, O=O)  # noqa: E741
        if Q.ndim != 4 or len(Q) != 2 or K.shape != Q.shape or V.shape != Q.shape[1:] or O.shape != V.mT.shape:
            raise ValueError(
                "Q and K must be (2, head, size, width), V (head, size, width) and O (head, width, size), got "
                f"{tuple(Q.shape)}, {tuple(K.shape)}, {tuple(V.shape)} and {tuple(O.shape)}"
            )
        if rotary and V.shape[1] % 2:
            raise ValueError(f"rotary rotations turn planes: size must be even, got {V.shape[1]}; or set rotary=False")
        self.Q, self.K, self.V, self.O = (nn.Parameter(W) for W in (Q, K, V, O))
        self.rotary, self.residual = rotary, residual

    @classmethod
    def random(
        cls,
        width: int,
        heads: int,
        size: int,
        *,
        rng=0,
        rotary: bool = True,
        residual: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> BilinearAttention:
        """Gaussian weights, for which each position adds something of order 1 where the inputs are."""
        rng = _checks.generator(rng)
        width, heads, size = (
            _checks.count(name, value) for name, value in dict(width=width, heads=heads, size=size).items()
        )
        Q, K = rng.normal(size=(2, 2, heads, size, width)) / np.sqrt(width)
        V = rng.normal(size=(heads, size, width)) / np.sqrt(width)
        O = rng.normal(size=(heads, width, size)) / np.sqrt(heads * size)  # noqa: E741
        return cls(Q, K, V, O, rotary=rotary, residual=residual).to(dtype)

    @property
    def width(self) -> int:
        return self.V.shape[2]

    @property
    def size(self) -> int:
        return self.V.shape[1]

    def forward(self, x) -> Tensor:
        """Outputs (..., position, width) for inputs of that shape."""
        x = check_inputs(x, self.width, self.V.dtype)
        q, k = (torch.einsum("chad,...td->...chta", W, x) for W in (self.Q, self.K))
        if self.rotary:
            turns = rotations(x.shape[-2], self.size).to(x.dtype)
            q, k = (torch.einsum("tab,...chtb->...chta", turns, each) for each in (q, k))
        pattern = torch.tril((q @ k.mT).prod(dim=-4)) / self.size**2
        values = torch.einsum("had,...td->...hta", self.V, x)
        out = torch.einsum("hoa,...hta->...to", self.O, pattern @ values)
        return x + out if self.residual else out


class AttentionStack(nn.Module):
    """Attention layers in a row, between an optional embedding and an optional head: a small language model.

    Parameters
    ----------
    layers : iterable of BilinearAttention
    embedding : array or Tensor (width, in), optional
    head : array or Tensor (out, width), optional
        Both are linear, without constants, and trained.

    Raises
    ------
    TypeError, ValueError
        If there is no layer, or widths do not fit.
    """

    def __init__(self, layers: Iterable[BilinearAttention], *, embedding=None, head=None):
        super().__init__()
        self.layers = nn.ModuleList(check_modules("layers", layers, BilinearAttention))
        widths, dtype = {layer.width for layer in self.layers}, self.layers[0].V.dtype
        if len(widths) > 1:
            raise ValueError(f"layers must share one width, got {sorted(widths)}")
        (width,) = widths
        self.embedding = None if embedding is None else nn.Parameter(matrices(embedding=embedding)[0].to(dtype))
        self.head = None if head is None else nn.Parameter(matrices(head=head)[0].to(dtype))
        if self.embedding is not None and len(self.embedding) != width:
            raise ValueError(f"embedding must have {width} rows, the width; got {tuple(self.embedding.shape)}")
        if self.head is not None and self.head.shape[1] != width:
            raise ValueError(f"head must have {width} columns, the width; got {tuple(self.head.shape)}")

    def forward(self, x) -> Tensor:
        """Outputs (..., position, out) for inputs (..., position, in), or integers (..., position)."""
        h = embedded(x, self.embedding, self.layers[0].width, self.layers[0].V.dtype)
        for layer in self.layers:
            h = layer(h)
        return h if self.head is None else functional.linear(h, self.head)

    @torch.no_grad()
    def centred(self) -> AttentionStack:
        """The network less the mean of its outputs, which softmax does not see; it shares its layers with this one."""
        head = torch.eye(self.layers[0].width) if self.head is None else self.head
        return AttentionStack(self.layers, embedding=self.embedding, head=head - head.mean(dim=0))


def rotations(positions: int, size: int) -> Tensor:
    """Rotary rotations ρ_t (position, size, size), float64: plane i turns by t · 10000^(−2i/size) at position t."""
    rates = ROTARY_BASE ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates
    turns, even = torch.zeros(positions, size, size, dtype=torch.float64), torch.arange(0, size, 2)
    turns[:, even, even] = turns[:, even + 1, even + 1] = torch.cos(angles)
    turns[:, even + 1, even] = torch.sin(angles)
    turns[:, even, even + 1] = -torch.sin(angles)
    return turns
