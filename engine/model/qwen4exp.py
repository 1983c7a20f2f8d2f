"""Architecture `qwen4exp`: the Qwen3.8-Flash-Next family.

Four residual streams per token; most layers mix over time with a Gated DeltaNet, every fourth with
gated attention over a bounded set of positions; every layer has a mixture of experts; one layer
adds an n-gram embedding. docs/models.md follows a token through it. Source: Qwen4ExpForCausalLM in
transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.experts.store import ExpertStore, MappedExperts
from engine.gguf.shape import Qwen4ExpShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.delta_net import DeltaNet
from engine.model.indexed_attention import IndexedAttention, IndexUse
from engine.model.layers import Linear, Parts, inverse_frequencies
from engine.model.loader import Weights
from engine.model.moe import MoE, SharedExpert, layer_experts
from engine.model.ngram_embedding import NgramEmbedding, open_table
from engine.model.plan import StepPlan, StepPlans
from engine.model.probe import Probe
from engine.model.streams import HyperConnection, StreamMixer
from engine.ngram.table import NgramTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A layer: a mixer over time, then experts; each behind a hyper-connection."""

    layer: int
    hc_attn: HyperConnection
    mixer: DeltaNet | IndexedAttention
    hc_ffn: HyperConnection
    moe: MoE
    shared: SharedExpert
    probe: Probe

    def __call__(
        self, h: Tensor, places: StepPlaces, memory: SequenceMemory, plan: StepPlan
    ) -> None:
        """h (tokens, streams, hidden), changed in place."""
        mixer, layer = self.mixer, self.layer
        if isinstance(mixer, DeltaNet):
            plan.run((layer, "all"), lambda: self._with_delta_net(h, mixer, places, memory))
            return
        x, logits, inputs = plan.run((layer, "before"), lambda: self._before(h, mixer))
        # What attention does depends on how far the sequences are.
        mixed, gate = mixer.attend(inputs, x, places, memory)
        mixed, gate, logits = plan.keep(mixed=mixed, gate=gate, logits=logits)
        plan.run((layer, "after"), lambda: self._after(h, mixer, mixed, gate, logits))

    def _with_delta_net(
        self, h: Tensor, mixer: DeltaNet, places: StepPlaces, memory: SequenceMemory
    ) -> None:
        x, logits = self._enter(h)
        self._leave(h, mixer(x, places, memory), logits)

    def _before(self, h: Tensor, mixer: IndexedAttention) -> tuple[Tensor, Tensor, list[Tensor]]:
        x, logits = self._enter(h)
        return x, logits, mixer.inputs(x)

    def _after(
        self, h: Tensor, mixer: IndexedAttention, mixed: Tensor, gate: Tensor, logits: Tensor
    ) -> None:
        self._leave(h, mixer.finish(mixed, gate), logits)

    def _enter(self, h: Tensor) -> tuple[Tensor, Tensor]:
        x, logits = self.hc_attn.enter(h)
        self.probe("attn_in", self.layer, x)
        return x, logits

    def _leave(self, h: Tensor, y: Tensor, logits: Tensor) -> None:
        """Add the mixer's output, then the experts'."""
        self.probe("attn_out", self.layer, y)
        self.hc_attn.leave(h, y, logits)
        x, logits = self.hc_ffn.enter(h)
        y = self.moe(x)
        self.shared.add_to(y, x)
        self.probe("ffn_out", self.layer, y)
        self.hc_ffn.leave(h, y, logits)
        self.probe("layer_out", self.layer, h)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBlock:
    """The multi-token-prediction block: from the trunk's streams at a position and the token after
    it, it guesses the token after that. It has keys and values of its own in the same pages.

    Source: pull request 27836 of llama.cpp; transformers leaves the block out.
    """

    embedding: QuantMatrix
    embedding_norm: Tensor  # (hidden,)
    stream_norm: Tensor  # (streams, hidden)
    eps: float
    join: Linear  # (hidden, 2 * hidden): embedding, then stream
    block: Block
    mixer: StreamMixer
    head: Linear

    def forward(
        self, wide: Tensor, ids: Tensor, places: StepPlaces, memory: SequenceMemory
    ) -> Tensor:
        """wide (tokens, streams * hidden), ids (tokens,) of the tokens after -> the same width.

        The result stands for the trunk's streams at the next position when drafts are chained.
        """
        tokens, streams = ids.shape[0], self.stream_norm.shape[0]
        embedded = ops.embedding(ids, self.embedding)
        e = ops.rms_norm(embedded, self.embedding_norm, self.eps)[:, None]
        h = ops.rms_norm(wide.view(tokens, streams, -1), self.stream_norm, self.eps)
        joined = torch.cat([e.expand_as(h), h], dim=2)
        z = self.join(joined.view(tokens * streams, -1)).view(tokens, streams, -1)
        self.block(z, places, memory, StepPlan())
        return z.view(tokens, -1)

    def logits(self, wide: Tensor) -> Tensor:
        """(rows, streams * hidden) -> (rows, vocab)."""
        return self.head(self.mixer(wide.view(wide.shape[0], self.stream_norm.shape[0], -1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen4Exp:
    """The trunk, and the draft block if there is one."""

    embedding: QuantMatrix
    streams: int
    ngram: NgramEmbedding | None
    blocks: Sequence[Block]
    mixer: StreamMixer
    head: Linear
    experts: ExpertStore
    draft: DraftBlock | None
    plans: StepPlans
    index_use: IndexUse
    probe: Probe

    @classmethod
    def build(cls, shape: Qwen4ExpShape, weights: Weights, activations: Activations) -> Qwen4Exp:
        """Parameters are views of the mapped file."""
        return _Builder(shape, weights, activations).model()

    def forward(self, ids: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        """ids (tokens,) int64 -> all streams (tokens, streams * hidden) after the last layer.

        They are good until the next step.
        """
        pending = self.ngram.request(ids, places, memory) if self.ngram is not None else None
        plan = self.plans.of(places) if self.probe.listener is None else StepPlan()
        places = plan.places(places)
        h = plan.streams(ops.embedding(ids, self.embedding), self.streams)
        for block in self.blocks:
            if self.ngram is not None and pending is not None and block.layer == self.ngram.layer:
                self.ngram.add_to(h, pending, places, memory)
                self.probe("after_ngram", block.layer, h)
            block(h, places, memory, plan)
        return h.view(ids.shape[0], -1)

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, streams * hidden) -> (rows, vocab)."""
        return self.head(self.mixer(x.view(x.shape[0], self.streams, -1)))

    @property
    def ngram_table(self) -> NgramTable | None:
        return self.ngram.table if self.ngram is not None else None

    def close(self) -> None:
        """Close the n-gram table."""
        if self.ngram is not None:
            self.ngram.table.close()


class _Builder:
    """Puts the parts of one model together."""

    def __init__(self, shape: Qwen4ExpShape, weights: Weights, activations: Activations) -> None:
        self.shape = shape
        self.weights = weights
        self.parts = Parts(shape, weights, activations)
        num_blocks = shape.layers + shape.draft_layers
        stacks = [layer_experts(weights, layer) for layer in range(num_blocks)]
        self.experts = MappedExperts(stacks, activations)
        self.inv_freq = inverse_frequencies(shape.rope_base, shape.rope_dims)
        self.index_use = IndexUse()

    def model(self) -> Qwen4Exp:
        shape, parts = self.shape, self.parts
        blocks = [self._block(layer) for layer in range(shape.layers)]
        return Qwen4Exp(
            embedding=self.weights.matrix("token_embd"),
            streams=shape.streams,
            blocks=blocks,
            mixer=StreamMixer.build(parts, "output_hc", shape.streams),
            head=parts.head(),
            experts=self.experts,
            draft=self._draft() if shape.draft_layers else None,
            plans=StepPlans(shape.streams, shape.hidden),
            index_use=self.index_use,
            probe=parts.probe,
            ngram=self._ngram(),  # last: whatever is refused above leaves no open table behind
        )

    def _block(self, layer: int) -> Block:
        shape, parts, blk = self.shape, self.parts, f"blk.{layer}"
        attends = layer in shape.attention_layers or layer >= shape.layers
        return Block(
            layer=layer,
            hc_attn=HyperConnection.build(parts, f"{blk}.hc_attn", shape.streams),
            mixer=IndexedAttention.build(parts, shape, layer, self.inv_freq, self.index_use)
            if attends
            else DeltaNet.build(parts, shape, layer),
            hc_ffn=HyperConnection.build(parts, f"{blk}.hc_ffn", shape.streams),
            moe=MoE(
                layer=layer,
                router=parts.router(f"{blk}.ffn_gate_inp"),
                experts=self.experts,
                experts_used=shape.experts_used,
                probe=parts.probe,
            ),
            shared=SharedExpert.build(parts, layer),
            probe=parts.probe,
        )

    def _ngram(self) -> NgramEmbedding | None:
        if self.shape.ngram is None:
            return None
        table = open_table(self.weights.file)
        return NgramEmbedding.build(self.parts, self.shape.ngram, self.shape.streams, table)

    def _draft(self) -> DraftBlock:
        shape, parts, blk = self.shape, self.parts, f"blk.{self.shape.layers}.nextn"
        own_embedding = self.weights.has(f"{blk}.embed_tokens")
        own_head = self.weights.has(f"{blk}.shared_head_head")
        return DraftBlock(
            embedding=self.weights.matrix(f"{blk}.embed_tokens" if own_embedding else "token_embd"),
            embedding_norm=self.weights.floats(f"{blk}.enorm.weight"),
            stream_norm=self.weights.floats(f"{blk}.hnorm.weight").view(shape.streams, -1),
            eps=shape.rms_eps,
            join=parts.linear(f"{blk}.eh_proj"),
            block=self._block(shape.layers),
            mixer=StreamMixer.build(parts, f"{blk}.hc_head", shape.streams),
            head=parts.linear(f"{blk}.shared_head_head") if own_head else parts.head(),
        )
