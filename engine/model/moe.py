"""The mixture-of-experts feed-forward: route each token, then ask the expert store."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.experts.store import ExpertStore
from engine.kernels import ops
from engine.model.layers import Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class MoE:
    """Softmax over all experts, the best k renormalised; x (tokens, hidden) -> the same."""

    layer: int
    router: Linear
    experts: ExpertStore
    experts_used: int

    def __call__(self, x: Tensor) -> Tensor:
        ids, weights = ops.router_topk(self.router(x), self.experts_used, normalise=True)
        return self.experts.compute(self.layer, x, ids, weights)
