"""The mixture-of-experts feed-forward: route each token, then ask the expert store."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.experts.store import ExpertStore, LayerExperts
from engine.kernels import ops
from engine.model.layers import DenseFFN, Linear, Parts
from engine.model.loader import Weights
from engine.model.probe import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class MoE:
    """Softmax over all experts, the best k renormalised; x (tokens, hidden) -> the same."""

    layer: int
    router: Linear
    experts: ExpertStore
    experts_used: int
    probe: Probe

    def __call__(self, x: Tensor) -> Tensor:
        ids, weights = ops.router_topk(self.router(x), self.experts_used, normalise=True)
        self.probe("experts", self.layer, ids)
        return self.experts.compute(self.layer, x, ids, weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedExpert:
    """The expert that every token uses, to the degree that a gate says."""

    ffn: DenseFFN
    gate: Linear  # one row

    @classmethod
    def build(cls, parts: Parts, layer: int) -> SharedExpert:
        blk = f"blk.{layer}"
        return cls(
            ffn=DenseFFN(
                gate=parts.linear(f"{blk}.ffn_gate_shexp"),
                up=parts.linear(f"{blk}.ffn_up_shexp"),
                down=parts.linear(f"{blk}.ffn_down_shexp"),
            ),
            gate=parts.linear(f"{blk}.ffn_gate_inp_shexp"),
        )

    def add_to(self, y: Tensor, x: Tensor) -> None:
        """x, y (tokens, hidden): y += sigmoid(gate x) * ffn(x), in place."""
        gate, up, down = (part.weight for part in (self.ffn.gate, self.ffn.up, self.ffn.down))
        ops.gated_ffn(y, x, gate, up, down, self.gate.weight, self.gate.activations)


def layer_experts(weights: Weights, layer: int) -> LayerExperts:
    """The stacks of a layer, whose gate and up a file may hold fused: gate rows first."""
    blk = f"blk.{layer}"
    if weights.has(f"{blk}.ffn_gate_up_exps"):
        both = weights.matrix(f"{blk}.ffn_gate_up_exps")
        half = both.rows // 2
        gate, up = both.row_range(0, half), both.row_range(half, half)
    else:
        gate, up = weights.matrix(f"{blk}.ffn_gate_exps"), weights.matrix(f"{blk}.ffn_up_exps")
    return LayerExperts(gate=gate, up=up, down=weights.matrix(f"{blk}.ffn_down_exps"))
