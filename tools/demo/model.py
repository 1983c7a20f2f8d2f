"""The demo model for training: the `qwen3moe` architecture in plain PyTorch.

RMSNorm, grouped-query attention with per-head query and key norms before NeoX rotary positions,
a softmax router over all experts whose top k are renormalised, SwiGLU experts, no shared expert.
Expert weights are stacked as GGUF stacks them: gate and up (experts, ff, hidden), down
(experts, hidden, ff). Source: Qwen3MoeForCausalLM in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD_ROWS = 32
WINDOW = 64  # tokens, about one chat
Z_WEIGHT = 1e-4
BALANCE_WEIGHT = 0.003  # first stage: no expert is left behind
IDLE_WEIGHT, IDLE_FLOOR = 0.02, 0.2  # second stage; the floor is a share of an even load
LOCALITY_WEIGHT, SPREAD = 0.1, 0.9  # second stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the demo model."""

    vocab: int = 2048
    layers: int = 4
    hidden: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    experts: int = 32
    experts_used: int = 4
    ff: int = 128
    rope_base: float = 10000.0
    rms_eps: float = 1e-6
    context: int = 2048


class Norm(nn.Module):
    """RMSNorm over the last axis."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Causal grouped-query attention; x (batch, time, hidden)."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.q = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm = Norm(s.head_dim, s.rms_eps)
        self.k_norm = Norm(s.head_dim, s.rms_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, time, _ = x.shape
        q = self.q_norm(self.q(x).view(batch, time, self.s.heads, -1)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(batch, time, self.s.kv_heads, -1)).transpose(1, 2)
        v = self.v(x).view(batch, time, self.s.kv_heads, -1).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(batch, time, -1))  # type: ignore[no-any-return]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """NeoX rotary embedding: the two halves of a head rotate against each other."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Experts(nn.Module):
    """Router and experts.

    Trained in two stages: first all experts carry an even load, then `specialise` lets texts of
    one kind keep to experts of their own.
    """

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.router = nn.Linear(s.hidden, s.experts, bias=False)
        scale = s.hidden**-0.5
        self.gate = nn.Parameter(torch.randn(s.experts, s.ff, s.hidden) * scale)
        self.up = nn.Parameter(torch.randn(s.experts, s.ff, s.hidden) * scale)
        self.down = nn.Parameter(torch.randn(s.experts, s.hidden, s.ff) * s.ff**-0.5)
        self.specialise = False  # the second stage of training

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, time, hidden) -> the same, and the auxiliary loss (scalar)."""
        flat = x.reshape(-1, self.s.hidden)
        with torch.autocast("cpu", enabled=False):
            logits = self.router(flat.float())
        probabilities = logits.softmax(-1)
        weights, ids = probabilities.topk(self.s.experts_used, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        if self.specialise:
            losses = self._idle(probabilities, ids) + self._locality(
                probabilities.view(*x.shape[:2], -1)
            )
        else:
            losses = BALANCE_WEIGHT * self._balance(probabilities, ids)
        losses = losses + Z_WEIGHT * logits.logsumexp(-1).square().mean()
        return self._mix(flat, ids, weights).view_as(x), losses

    def _balance(self, probabilities: Tensor, ids: Tensor) -> Tensor:
        """The load-balancing loss of Switch Transformers (arXiv 2101.03961), zero when even."""
        share = torch.bincount(ids.reshape(-1), minlength=self.s.experts) / ids.numel()
        return self.s.experts * (share * probabilities.mean(0)).sum() - 1

    def _idle(self, probabilities: Tensor, ids: Tensor) -> Tensor:
        """Lifts experts whose share of the batch is below the floor; the others are left alone."""
        share = torch.bincount(ids.reshape(-1), minlength=self.s.experts) / ids.numel()
        floor = IDLE_FLOOR / self.s.experts
        missing = (floor - probabilities.mean(0)) * (share < floor)
        return IDLE_WEIGHT * self.s.experts * missing.sum()

    def _locality(self, probabilities: Tensor) -> Tensor:
        """Entropy of the mean routing of short windows, less a part of the whole batch's.

        Neighbouring tokens come to share experts while different texts keep to different ones.
        Rows that are no multiple of WINDOW (measuring, not training) have no such loss.
        """
        batch, time, experts = probabilities.shape
        if time % WINDOW:
            return probabilities.new_zeros(())
        windows = probabilities.view(batch * time // WINDOW, WINDOW, experts).mean(1)
        return LOCALITY_WEIGHT * (entropy(windows).mean() - SPREAD * entropy(windows.mean(0)))

    def _mix(self, flat: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        """Sort the (token, expert) pairs by expert, then one small GEMM per expert.

        Each expert's rows are padded to a multiple of PAD_ROWS with pairs of weight zero: the CPU
        library compiles a kernel per matrix shape, so shapes have to come back.
        """
        order = ids.reshape(-1).argsort(stable=True)
        counts = torch.bincount(ids.reshape(-1), minlength=self.s.experts)
        padded = (counts + PAD_ROWS - 1) // PAD_ROWS * PAD_ROWS
        shift = (padded.cumsum(0) - padded) - (counts.cumsum(0) - counts)
        place = torch.arange(len(order)) + shift.repeat_interleave(counts)
        tokens = torch.zeros(int(padded.sum()), dtype=torch.long)
        tokens[place] = order // self.s.experts_used
        scale = weights.new_zeros(len(tokens)).index_put((place,), weights.reshape(-1)[order])
        kind = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
        # unbind, not indexing: its backward writes each expert's gradient once, into one stack.
        stacks = (stack.to(kind).unbind() for stack in (self.gate, self.up, self.down))
        pieces = torch.split(flat.to(kind)[tokens], padded.tolist())
        outputs = [
            F.linear(F.silu(F.linear(piece, gate)) * F.linear(piece, up), down)
            for piece, gate, up, down in zip(pieces, *stacks, strict=True)
        ]
        scaled = torch.cat(outputs).float() * scale.unsqueeze(-1)
        return torch.zeros_like(flat, dtype=torch.float32).index_add(0, tokens, scaled)


def entropy(probabilities: Tensor) -> Tensor:
    """In nats, over the last axis."""
    return -(probabilities * (probabilities + 1e-9).log()).sum(-1)


class Layer(nn.Module):
    """Attention and experts, each behind a norm, each added to the stream."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.attn_norm, self.ffn_norm = Norm(s.hidden, s.rms_eps), Norm(s.hidden, s.rms_eps)
        self.attn, self.moe = Attention(s), Experts(s)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.attn(self.attn_norm(x), cos, sin)
        out, auxiliary = self.moe(self.ffn_norm(x))
        return x + out, auxiliary


class DemoModel(nn.Module):
    """ids (batch, time) -> logits (batch, time, vocab) and the auxiliary loss."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.embed = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = Norm(s.hidden, s.rms_eps)
        self.head = nn.Linear(s.hidden, s.vocab, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and "norm" not in name:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(ids.shape[1], dtype=torch.float64)
        exponents = torch.arange(0, self.s.head_dim, 2, dtype=torch.float64) / self.s.head_dim
        angles = positions[:, None] * self.s.rope_base**-exponents
        cos, sin = angles.cos().float(), angles.sin().float()
        x, auxiliary = self.embed(ids).float(), torch.zeros(())
        for layer in self.layers:
            x, loss = layer(x, cos, sin)
            auxiliary = auxiliary + loss
        return self.head(self.norm(x)), auxiliary
