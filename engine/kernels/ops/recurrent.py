"""What moves along a sequence: a short convolution and the gated delta rule.

Each op takes a sequence on from the state it left. How a sequence is cut into spans and calls
cannot be seen in any bit of the results: a token's sums run in the same order either way.
"""

from __future__ import annotations

from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked_head, shaped
from engine.kernels.ops.record import empty
from engine.kernels.ops.spans import Spans, checked_spans


def causal_conv(
    x: Tensor, kernel: Tensor, state: Tensor, spans: Spans, *, dilation: int = 1
) -> Tensor:
    """silu of a depthwise convolution over each sequence.

    x        (tokens, channels)
    kernel   (taps, channels); the last tap meets the current token, the one before it the token
             `dilation` positions earlier, and so on
    state    (slots, (taps - 1) * dilation, channels), the inputs before the span, oldest first,
             zeros where the sequence had not begun; in place: those before the next span
    returns  (tokens, channels)
    """
    tokens, channels = shaped("x", x, (None, None))
    taps, _ = shaped("kernel", kernel, (None, channels))
    if taps < 2 or dilation < 1:
        raise ShapeError(f"kernel: {taps} taps, {dilation} apart")
    slots, *_ = shaped("state", state, (None, (taps - 1) * dilation, channels))
    num_spans = checked_spans(spans, tokens, slots)
    out = empty(*x.shape)
    _native.causal_conv(
        *(x.data_ptr(), kernel.data_ptr(), state.data_ptr(), out.data_ptr()),
        *(spans.offsets.data_ptr(), spans.slots.data_ptr()),
        [num_spans, channels, taps, dilation],
    )
    return out


def delta_rule(
    qkv: Tensor,
    beta: Tensor,
    alpha: Tensor,
    decay: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    spans: Spans,
    *,
    key_heads: int,
) -> Tensor:
    """The recurrence of Gated DeltaNet over each sequence, for one token or many.

    Queries and keys become unit vectors (queries over sqrt(key_dim)); per value head h, with key
    head h % key_heads, g = exp(decay * softplus(alpha + dt_bias)) and b = sigmoid(beta):
    S = g S;  S = S + k (b (v - S'k))';  o = S'q.

    qkv             (tokens, 2 * key_heads * key_dim + heads * value_dim): queries, keys, values
    beta, alpha     (tokens, heads)
    decay, dt_bias  (heads,), decay negative
    state           (slots, heads, key_dim, value_dim), in place
    returns         (tokens, heads, value_dim)
    Source: Yang et al., Gated Delta Networks (arXiv 2412.06464).
    """
    slots, heads, key_dim, value_dim = shaped("state", state, (None, None, None, None))
    checked_head("state", key_dim)
    checked_head("state", value_dim)
    if key_heads < 1 or heads % key_heads:
        raise ShapeError(f"key_heads: {heads} value heads do not share {key_heads}")
    width = 2 * key_heads * key_dim + heads * value_dim
    tokens, _ = shaped("qkv", qkv, (None, width))
    for name, gate in (("beta", beta), ("alpha", alpha)):
        shaped(name, gate, (tokens, heads))
    for name, constant in (("decay", decay), ("dt_bias", dt_bias)):
        shaped(name, constant, (heads,))
    num_spans = checked_spans(spans, tokens, slots)
    out = empty(tokens, heads, value_dim)
    _native.delta_rule(
        *(qkv.data_ptr(), beta.data_ptr(), alpha.data_ptr(), decay.data_ptr()),
        *(dt_bias.data_ptr(), state.data_ptr(), out.data_ptr()),
        *(spans.offsets.data_ptr(), spans.slots.data_ptr()),
        [num_spans, tokens, key_heads, heads, key_dim, value_dim],
    )
    return out
