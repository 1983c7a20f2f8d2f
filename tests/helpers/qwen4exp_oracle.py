"""Qwen3.8-Flash-Next (`qwen4exp`) in plain numpy float64: slow, obvious, the oracle of the engine.

One sequence, no cache: every position is computed from the whole prompt. `forward(tokens)` gives
logits at all positions and, in `trace`, what golden vectors name. The equations are those of
Qwen4ExpForCausalLM in transformers 5.24 over the tensors of a GGUF file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.gguf.quants import dequantize
from engine.gguf.reader import GGUFModel

Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]


def sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


def silu(x: Doubles) -> Doubles:
    return x * sigmoid(x)


class Oracle:
    """Weights of a model as float64, looked up by name, and its sizes."""

    def __init__(self, model: GGUFModel) -> None:
        self._model = model
        self._cache: dict[str, Doubles] = {}
        self.trace: dict[str, NDArray[np.generic]] = {}
        self.eps = model.metadata.number("qwen4exp.attention.layer_norm_rms_epsilon")
        self.streams = self.size("hyper_connection.count")
        self.hidden = self.size("embedding_length")
        self.layers = self.size("block_count")
        has_ngrams = "qwen4exp.ple.layers" in model.metadata
        self.ngram_layers = self.sizes("ple.layers").tolist() if has_ngrams else []

    def size(self, key: str) -> int:
        return self._model.metadata.integer(f"qwen4exp.{key}")

    def sizes(self, key: str) -> Ids:
        return np.asarray(self._model.metadata[f"qwen4exp.{key}"]).astype(np.int64)

    def w(self, name: str) -> Doubles:
        """A tensor with its shape reversed: matrices are (out, in)."""
        if name not in self._cache:
            tensor = self._model.tensors[name]
            raw = self._model.data(name)
            values = dequantize(raw, tensor.type).astype(np.float64)
            self._cache[name] = values.reshape(tensor.shape[::-1])
        return self._cache[name]

    def project(self, x: Doubles, name: str) -> Doubles:
        """x (..., in) -> (..., out)."""
        out: Doubles = x @ self.w(name).T
        return out

    def rms(self, x: Doubles) -> Doubles:
        scale: Doubles = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return x * scale

    def forward(self, tokens: NDArray[np.integer]) -> Doubles:
        """tokens (T,) -> logits (T, vocab)."""
        ids = np.asarray(tokens).astype(np.int64)
        h = np.repeat(self.w("token_embd.weight")[ids][:, None], self.streams, axis=1)
        ratios = self.sizes("attention.compress_ratios")
        for layer in range(self.layers):
            if layer in self.ngram_layers:
                h = self.ngram_embedding(layer, ids, h)
            mixer = self.attention if ratios[layer] else self.delta_net
            h = self.residual(f"blk.{layer}.hc_attn", h, partial(mixer, layer))
            h = self.residual(f"blk.{layer}.hc_ffn", h, partial(self.moe, layer))
            self.trace[f"layer_out.{layer}"] = h
        x, _ = self.mix("output_hc", h)
        return self.project(x, "output.weight")

    # Hyper-connections: C streams per token; h is (T, C, hidden)

    def mix(self, name: str, h: Doubles) -> tuple[Doubles, Doubles]:
        """The sublayer's input (T, hidden) and the normalised streams (T, C * hidden)."""
        gamma = self.w(f"{name}_norm.weight").reshape(self.streams, self.hidden)
        n = self.rms(h) * gamma
        flat = n.reshape(len(h), -1)
        low = silu(flat @ self.w(f"{name}_down.weight").T / self.streams)
        gate = sigmoid(low @ self.w(f"{name}_up.weight").T).reshape(n.shape)
        return (gate * n).mean(1), flat

    def residual(self, name: str, h: Doubles, sublayer: Callable[[Doubles], Doubles]) -> Doubles:
        x, flat = self.mix(name, h)
        inject = 2 * sigmoid(flat @ self.w(f"{name}_inject.weight").T / self.streams)
        return h + inject[:, :, None] * sublayer(x)[:, None, :]

    # Gated DeltaNet

    def delta_net(self, layer: int, x: Doubles) -> Doubles:
        blk, time = f"blk.{layer}", len(x)
        key_heads, value_heads = self.size("ssm.group_count"), self.size("ssm.time_step_rank")
        dim = self.size("ssm.state_size")
        u = causal_convolution(
            self.project(x, f"{blk}.attn_qkv.weight"), self.w(f"{blk}.ssm_conv1d.weight")
        )
        q, k, v = np.split(silu(u), [key_heads * dim, 2 * key_heads * dim], axis=1)
        q = unit(q.reshape(time, key_heads, dim)) / np.sqrt(dim)
        k = unit(k.reshape(time, key_heads, dim))
        v = v.reshape(time, value_heads, dim)
        beta = sigmoid(self.project(x, f"{blk}.ssm_beta.weight"))
        step = np.logaddexp(
            0, self.project(x, f"{blk}.ssm_alpha.weight") + self.w(f"{blk}.ssm_dt.bias")
        )
        decay = np.exp(self.w(f"{blk}.ssm_a") * step)
        state = np.zeros((value_heads, dim, dim))  # (head, key, value)
        out = np.empty((time, value_heads, dim))
        pair = np.arange(value_heads) % key_heads  # value heads are tiled over key heads
        for t in range(time):
            state *= decay[t][:, None, None]
            kt = k[t][pair]
            delta = beta[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", state, kt))
            state += kt[:, :, None] * delta[:, None, :]
            out[t] = np.einsum("hkv,hk->hv", state, q[t][pair])
        self.trace[f"gdn_state.{layer}"] = state
        gate = sigmoid(self.project(x, f"{blk}.attn_gate.weight")).reshape(out.shape)
        y: Doubles = self.rms(out) * self.w(f"{blk}.ssm_norm.weight") * gate
        return self.project(y.reshape(time, -1), f"{blk}.ssm_out.weight")

    # Gated attention with the sparse index

    def attention(self, layer: int, x: Doubles) -> Doubles:
        blk, time = f"blk.{layer}", len(x)
        heads, kv_heads = self.size("attention.head_count"), self.size("attention.head_count_kv")
        dim = self.size("attention.key_length")
        both = (self.project(x, f"{blk}.attn_q.weight")).reshape(time, heads, 2, dim)
        q, gate = both[:, :, 0], both[:, :, 1]
        k = (self.project(x, f"{blk}.attn_k.weight")).reshape(time, kv_heads, dim)
        v = (self.project(x, f"{blk}.attn_v.weight")).reshape(time, kv_heads, dim)
        positions = np.arange(time)
        q = self.rope(self.rms(q) * self.w(f"{blk}.attn_q_norm.weight"), positions)
        k = self.rope(self.rms(k) * self.w(f"{blk}.attn_k_norm.weight"), positions)
        group = np.arange(heads) // (heads // kv_heads)
        scores = np.einsum("thd,shd->hts", q, k[:, group]) / np.sqrt(dim)
        allowed = self.allowed(layer, x)
        self.trace[f"qsa_allowed.{layer}"] = allowed
        scores = np.where(allowed[None], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hts,shd->thd", weights, v[:, group]) * sigmoid(gate)
        return self.project(mixed.reshape(time, -1), f"{blk}.attn_output.weight")

    def rope(self, x: Doubles, positions: Ids) -> Doubles:
        """x (T, heads, dim): the first dimensions turn, halves against each other."""
        dims = self.size("rope.dimension_count")
        base = self._model.metadata.number("qwen4exp.rope.freq_base")
        angles = positions[:, None, None] * base ** (-np.arange(0, dims, 2) / dims)
        a, b, rest = x[..., : dims // 2], x[..., dims // 2 : dims], x[..., dims:]
        cosine, sine = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cosine - b * sine, b * cosine + a * sine, rest], axis=-1)

    def allowed(self, layer: int, x: Doubles) -> NDArray[np.bool_]:
        """(T, T): the tail of each query, and the tokens of its best blocks."""
        blk, time = f"blk.{layer}.indexer", len(x)
        ratio = int(self.sizes("attention.compress_ratios")[layer])
        heads, dim = (
            self.size("attention.indexer.head_count"),
            self.size("attention.indexer.key_length"),
        )
        best = self.size("attention.indexer.top_k") // ratio
        q = (self.project(x, f"{blk}.q_proj.weight")).reshape(time, heads, dim)
        q = self.rope(self.rms(q) * self.w(f"{blk}.q_norm.weight"), np.arange(time))
        raw = self.project(x, f"{blk}.k_proj.weight")
        num_blocks = time // ratio
        pooled = raw[: num_blocks * ratio].reshape(num_blocks, ratio, dim).mean(1)
        pooled = self.rms(pooled) * self.w(f"{blk}.k_norm.weight")
        pooled = self.rope(pooled[:, None], np.arange(num_blocks) * ratio)[:, 0]
        scores = np.maximum(np.einsum("thd,md->thm", q, pooled), 0).sum(1)
        mask = np.zeros((time, time), np.bool_)
        for t in range(time):
            complete = (t + 1) // ratio
            mask[t, complete * ratio : t + 1] = True
            for block in np.argsort(-scores[t, :complete], kind="stable")[:best]:
                mask[t, block * ratio : (block + 1) * ratio] = True
        return mask

    # Mixture of experts

    def moe(self, layer: int, x: Doubles) -> Doubles:
        blk, k = f"blk.{layer}", self.size("expert_used_count")
        logits = self.project(x, f"{blk}.ffn_gate_inp.weight")
        p = np.exp(logits - logits.max(-1, keepdims=True))
        ids = np.argsort(-p, axis=-1, kind="stable")[:, :k]
        self.trace[f"experts.{layer}"] = ids
        chosen = np.take_along_axis(p, ids, axis=-1)
        chosen /= chosen.sum(-1, keepdims=True)
        gate, up, down = (
            self.w(f"{blk}.ffn_{name}_exps.weight") for name in ("gate", "up", "down")
        )
        y = np.zeros_like(x)
        for t, experts in enumerate(ids):
            for weight, e in zip(chosen[t], experts, strict=True):
                y[t] += weight * (down[e] @ (silu(gate[e] @ x[t]) * (up[e] @ x[t])))
        gate, up, down = (
            self.w(f"{blk}.ffn_{name}_shexp.weight") for name in ("gate", "up", "down")
        )
        shared = (silu(x @ gate.T) * (x @ up.T)) @ down.T
        return y + sigmoid(x @ self.w(f"{blk}.ffn_gate_inp_shexp.weight"))[:, None] * shared

    # N-gram embedding

    def ngram_rows(self, ids: Ids) -> Ids:
        """(T, heads): rows of the table, from hashes of the last tokens."""
        end = self.size("ple.eos_token_id")
        multipliers = [int(m) for m in self.sizes("ple.layer_multipliers")]
        offsets, vocabularies = self.sizes("ple.head_offsets"), self.sizes("ple.head_vocab_sizes")
        per_ngram = self.size("ple.heads_per_ngram")
        rows = np.empty((len(ids), len(offsets)), np.int64)
        for t in range(len(ids)):
            context = [int(ids[t])]
            for back in range(1, len(multipliers)):
                before = int(ids[t - back]) if t >= back else end
                # Past an end of text, or the start, everything reads as the end of text.
                cut = back > 1 and context[-1] == end
                context.append(end if cut else before)
            value = context[0] * multipliers[0]
            for n in range(1, len(multipliers)):
                value ^= context[n] * multipliers[n]
                for head in range((n - 1) * per_ngram, n * per_ngram):
                    rows[t, head] = offsets[head] + value % int(vocabularies[head])
        return rows

    def ngram_embedding(self, layer: int, ids: Ids, h: Doubles) -> Doubles:
        blk, time = f"blk.{layer}", len(ids)
        rows = self.ngram_rows(ids)
        self.trace["ple_rows"] = rows
        e = self.w("per_layer_token_embd.weight")[rows].reshape(time, -1)
        shape = (self.streams, self.hidden)
        keys = (self.project(e, f"{blk}.ple_key.weight")).reshape(time, *shape)
        values = self.project(e, f"{blk}.ple_value.weight")
        keys = self.rms(keys) * self.w(f"{blk}.ple_norm_key.weight").reshape(shape)
        queries = self.rms(h) * self.w(f"{blk}.ple_norm_query.weight").reshape(shape)
        s = (keys * queries).sum(-1) / np.sqrt(self.hidden)
        gate = sigmoid(np.sign(s) * np.sqrt(np.maximum(np.abs(s), 1e-6)))
        a = gate[:, :, None] * values[:, None, :]
        x = (self.rms(a) * self.w(f"{blk}.ple_norm_conv.weight").reshape(shape)).reshape(time, -1)
        kernel = self.w(f"{blk}.ple_conv1d.weight")
        y = silu(causal_convolution(x, kernel, dilation=self.size("ple.ngram_size")))
        out: Doubles = h + a + y.reshape(h.shape)
        self.trace["after_ple"] = out
        return out


def unit(x: Doubles) -> Doubles:
    scale: Doubles = 1 / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
    return x * scale


def causal_convolution(x: Doubles, kernel: Doubles, *, dilation: int = 1) -> Doubles:
    """Depthwise over time; x (T, channels), kernel (channels, taps), the last tap is now."""
    taps = kernel.shape[1]
    out = np.zeros_like(x)
    for tap in range(taps):
        shift = dilation * (taps - 1 - tap)
        out[shift:] += kernel[:, tap] * x[: len(x) - shift]
    return out
