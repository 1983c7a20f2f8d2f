"""The tensors of the family `qwen4exp`, in the order of the file; called by `qwen4exp.py`.

Random weights are sized so that what flows through a layer stays of order one: the input of a
sublayer is the mean of half-open gates over normalised streams, so it is about 1/2, and matrices
that read it are larger by `MIX_GAIN`. Hyper-connections divide by the number of streams before
their non-linearity, so their matrices are larger by that. The mean over chosen experts shrinks
by the root of their number, so their down matrices are larger by it.
Source: the tensor table of src/models/qwen4exp.cpp in llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.model_files.plan import Computed, Fused, Gaussian, PlannedTensor, Role
from bench.model_files.qwen4exp import Sizes
from bench.model_files.router import router_rows

Floats = NDArray[np.float32]
MIX_GAIN = 2.0
ROUTER_GAIN = 2 * MIX_GAIN  # logits of deviation 2: the best experts differ clearly
HEAD_GAIN = 2 * MIX_GAIN  # the same for tokens
NORM_DEVIATION = 0.1
DECAY_RATES = (1.0, 16.0)  # of the states of linear layers, per unit of step
STEPS = (0.001, 0.1)  # of those states, where the input adds nothing


def tensors(sizes: Sizes, *, mtp: bool, fused: bool, skew: float) -> Iterator[PlannedTensor]:
    """All tensors in the order of the file."""
    s = sizes
    yield _matrix("token_embd", s.hidden, s.vocab, rms=1.0, role=Role.EMBEDDING)
    yield _matrix("output", s.hidden, s.vocab, gain=HEAD_GAIN, role=Role.HEAD)
    yield from _mixer("output_hc", s)
    for layer in range(s.layers):
        if layer == s.ngram_layer:
            yield from _ngram(f"blk.{layer}", s)
        mixer = _attention if s.is_full(layer) else _delta_net
        yield from mixer(f"blk.{layer}", s)
        yield from _moe(f"blk.{layer}", s, fused=fused, skew=skew)
    if mtp:
        block = f"blk.{s.layers}"
        yield from _nextn(block, s)
        yield from _attention(block, s)
        yield from _moe(block, s, fused=fused, skew=skew)


def _mixer(name: str, s: Sizes) -> Iterator[PlannedTensor]:
    yield _norm(f"{name}_norm", s.wide)
    yield _matrix(f"{name}_down", s.wide, s.low_rank, gain=s.streams)
    yield _matrix(f"{name}_up", s.low_rank, s.wide, gain=MIX_GAIN)


def _hyper_connection(name: str, s: Sizes) -> Iterator[PlannedTensor]:
    yield from _mixer(name, s)
    yield _matrix(f"{name}_inject", s.wide, s.streams, gain=s.streams, role=Role.SMALL)


def _delta_net(block: str, s: Sizes) -> Iterator[PlannedTensor]:
    yield from _hyper_connection(f"{block}.hc_attn", s)
    yield _matrix(f"{block}.attn_qkv", s.hidden, s.qkv_width, gain=MIX_GAIN)
    yield _matrix(f"{block}.attn_gate", s.hidden, s.value_width, gain=MIX_GAIN)
    for part in ("ssm_beta", "ssm_alpha"):
        yield _matrix(f"{block}.{part}", s.hidden, s.value_heads, gain=MIX_GAIN, role=Role.SMALL)
    yield _matrix(f"{block}.ssm_conv1d", s.conv_kernel, s.qkv_width, role=Role.SMALL)
    yield _vector(f"{block}.ssm_dt.bias", s.value_heads, _step_biases)
    yield _vector(f"{block}.ssm_a", s.value_heads, _negative_rates)
    yield _norm(f"{block}.ssm_norm", s.state_dim)
    yield _matrix(f"{block}.ssm_out", s.value_width, s.hidden)


def _attention(block: str, s: Sizes) -> Iterator[PlannedTensor]:
    queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim
    yield from _hyper_connection(f"{block}.hc_attn", s)
    yield _matrix(f"{block}.attn_q", s.hidden, 2 * queries, gain=MIX_GAIN)
    yield _matrix(f"{block}.attn_k", s.hidden, keys, gain=MIX_GAIN)
    yield _matrix(f"{block}.attn_v", s.hidden, keys, gain=MIX_GAIN)
    yield _matrix(f"{block}.attn_output", queries, s.hidden)
    yield _norm(f"{block}.attn_q_norm", s.head_dim)
    yield _norm(f"{block}.attn_k_norm", s.head_dim)
    index = f"{block}.indexer"
    index_queries = s.index_heads * s.index_dim
    yield _matrix(f"{index}.q_proj", s.hidden, index_queries, gain=MIX_GAIN, role=Role.INDEX)
    yield _matrix(f"{index}.k_proj", s.hidden, s.index_dim, gain=MIX_GAIN, role=Role.INDEX)
    yield _norm(f"{index}.q_norm", s.index_dim)
    yield _norm(f"{index}.k_norm", s.index_dim)


def _moe(block: str, s: Sizes, *, fused: bool, skew: float) -> Iterator[PlannedTensor]:
    yield from _hyper_connection(f"{block}.hc_ffn", s)
    yield _router(f"{block}.ffn_gate_inp.weight", s, skew)
    gate, up = (
        _experts(f"{block}.ffn_{part}_exps", s.hidden, s.ff, s.experts, gain=MIX_GAIN)
        for part in ("gate", "up")
    )
    if fused:
        yield PlannedTensor(
            name=f"{block}.ffn_gate_up_exps.weight",
            shape=(s.hidden, 2 * s.ff, s.experts),
            role=Role.EXPERTS,
            filling=Fused((gate, up)),
        )
    else:
        yield from (gate, up)
    down_gain = s.experts_used**0.5
    yield _experts(
        f"{block}.ffn_down_exps", s.ff, s.hidden, s.experts, gain=down_gain, role=Role.DOWN
    )
    for part in ("gate", "up"):
        name = f"{block}.ffn_{part}_shexp"
        yield _matrix(name, s.hidden, s.shared_ff, gain=MIX_GAIN, role=Role.SHARED)
    yield _matrix(f"{block}.ffn_down_shexp", s.shared_ff, s.hidden, role=Role.SHARED)
    yield PlannedTensor(
        name=f"{block}.ffn_gate_inp_shexp.weight",
        shape=(s.hidden,),
        role=Role.SMALL,
        filling=Gaussian(MIX_GAIN * s.hidden**-0.5),
    )


def _ngram(block: str, s: Sizes) -> Iterator[PlannedTensor]:
    width = s.table_heads * s.ngram_dim
    yield _matrix("per_layer_token_embd", s.ngram_dim, s.ngram_rows, rms=1.0, role=Role.NGRAM)
    yield _matrix(f"{block}.ple_key", width, s.wide)
    yield _matrix(f"{block}.ple_value", width, s.hidden)
    for part in ("key", "query", "conv"):
        yield _norm(f"{block}.ple_norm_{part}", s.wide)
    yield _matrix(f"{block}.ple_conv1d", s.ngram_kernel, s.wide, role=Role.CONV)


def _nextn(block: str, s: Sizes) -> Iterator[PlannedTensor]:
    yield _matrix(f"{block}.nextn.eh_proj", 2 * s.hidden, s.hidden)
    yield _norm(f"{block}.nextn.enorm", s.hidden)
    yield _norm(f"{block}.nextn.hnorm", s.wide)
    yield from _mixer(f"{block}.nextn.hc_head", s)


def _matrix(
    name: str,
    cols: int,
    rows: int,
    *,
    gain: float = 1.0,
    rms: float | None = None,
    role: Role = Role.TRUNK,
) -> PlannedTensor:
    """Weights of gain / sqrt(cols), or of a given size for rows that are looked up."""
    size = gain * cols**-0.5 if rms is None else rms
    return PlannedTensor(
        name=f"{name}.weight", shape=(cols, rows), role=role, filling=Gaussian(size)
    )


def _experts(
    name: str, cols: int, rows: int, count: int, *, gain: float, role: Role = Role.EXPERTS
) -> PlannedTensor:
    return PlannedTensor(
        name=f"{name}.weight",
        shape=(cols, rows, count),
        role=role,
        filling=Gaussian(gain * cols**-0.5),
    )


def _router(name: str, s: Sizes, skew: float) -> PlannedTensor:
    rows = partial(
        router_rows,
        experts=s.experts,
        used=s.experts_used,
        inputs=s.hidden,
        skew=skew,
        rms=ROUTER_GAIN * s.hidden**-0.5,
    )
    return PlannedTensor(
        name=name, shape=(s.hidden, s.experts), role=Role.SMALL, filling=Computed(rows)
    )


def _vector(
    name: str, dim: int, values: Callable[[np.random.Generator, int], Floats]
) -> PlannedTensor:
    filling = Computed(lambda random: values(random, dim))
    return PlannedTensor(name=name, shape=(dim,), role=Role.SMALL, filling=filling)


def _norm(name: str, dim: int) -> PlannedTensor:
    return _vector(f"{name}.weight", dim, _gammas)


def _gammas(random: np.random.Generator, dim: int) -> Floats:
    return np.float32(1) + np.float32(NORM_DEVIATION) * random.standard_normal(dim, np.float32)


def _negative_rates(random: np.random.Generator, dim: int) -> Floats:
    return -random.uniform(*DECAY_RATES, dim).astype(np.float32)


def _step_biases(random: np.random.Generator, dim: int) -> Floats:
    """What softplus makes a step of, steps even on a logarithmic scale, as these layers start."""
    steps = np.exp(random.uniform(*np.log(STEPS), dim))
    return np.log(np.expm1(steps)).astype(np.float32)
