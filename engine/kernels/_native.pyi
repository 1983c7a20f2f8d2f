"""The C++ module; see csrc/bindings.cpp. Addresses are those of checked, contiguous arrays."""

MatrixTuple = tuple[int, int, int, int, int, int]  # data, type, rows, cols, experts, expert stride

class Program: ...

def record(program: Program) -> None: ...
def stop_recording() -> None: ...
def run_program(program: Program) -> None: ...
def has_type(type: int) -> bool: ...
def variants() -> list[str]: ...
def variant() -> str: ...
def set_variant(name: str) -> bool: ...
def keep_freed_memory() -> None: ...
def num_threads() -> int: ...
def set_num_threads(count: int) -> None: ...
def linear(x: int, tokens: int, w: MatrixTuple, levels: int, y: int) -> None: ...
def linears(
    x: int, tokens: int, ws: list[MatrixTuple], levels: int, ys: list[int]
) -> None: ...
def gated_ffn(
    x: int,
    tokens: int,
    gate: MatrixTuple,
    up: MatrixTuple,
    down: MatrixTuple,
    share: MatrixTuple,
    levels: int,
    y: int,
) -> None: ...
def expert_ffn(
    x: int,
    tokens: int,
    k: int,
    gate: MatrixTuple,
    up: MatrixTuple,
    down: MatrixTuple,
    ids: int,
    weights: int,
    levels: int,
    y: int,
    counts: int,
) -> None: ...
def embedding(ids: int, tokens: int, table: MatrixTuple, out: int) -> None: ...
def rms_norm(
    x: int, weight: int, eps: float, rows: int, dim: int, groups: int, out: int
) -> None: ...
def gated_norm(
    x: int, weight: int, eps: float, gate: int, rows: int, dim: int, out: int
) -> None: ...
def rope(
    x: int,
    positions: int,
    inv_freq: int,
    tokens: int,
    heads: int,
    head_dim: int,
    half: int,
    neox: bool,
) -> None: ...
def swiglu(gate: int, up: int, rows: int, width: int, out: int) -> None: ...
def router_topk(
    logits: int, tokens: int, experts: int, k: int, normalise: bool, ids: int, weights: int
) -> None: ...
def store_kv(
    source: int, pool: int, half: bool, slots: int, tokens: int, width: int
) -> None: ...
def attention_inputs(
    both: int,
    k: int,
    v: int,
    q_weight: int,
    k_weight: int,
    eps: float,
    inv_freq: int,
    positions: int,
    slots: int,
    k_pool: int,
    v_pool: int,
    half: bool,
    q: int,
    gate: int,
    sizes: list[int],
) -> None: ...
def attention(
    q: int,
    out: int,
    k_pool: int,
    v_pool: int,
    half: bool,
    page_table: int,
    sequence: int,
    positions: int,
    blocks: int,
    sizes: list[int],
    scale: float,
) -> None: ...
def pool_index_keys(
    raw: int,
    weight: int,
    eps: float,
    inv_freq: int,
    pool: int,
    half: bool,
    partial: int,
    page_table: int,
    sequence: int,
    positions: int,
    offsets: int,
    slots: int,
    sizes: list[int],
) -> None: ...
def select_blocks(
    q: int,
    pool: int,
    half: bool,
    page_table: int,
    sequence: int,
    positions: int,
    sizes: list[int],
    blocks: int,
) -> None: ...
def sigmoid_gate(x: int, gate: int, count: int) -> None: ...
def mix_streams(
    h: int,
    norm: int,
    eps: float,
    down: MatrixTuple,
    up: MatrixTuple,
    inject: list[MatrixTuple],
    levels: int,
    tokens: int,
    streams: int,
    dim: int,
    x: int,
    logits: int,
) -> None: ...
def gated_add(
    acc: int,
    y: int,
    logits: int,
    tokens: int,
    streams: int,
    dim: int,
    scale: float,
    gain: float,
) -> None: ...
def ngram_gates(keys: int, queries: int, rows: int, dim: int, out: int) -> None: ...
def causal_conv(
    x: int, kernel: int, state: int, out: int, offsets: int, slots: int, sizes: list[int]
) -> None: ...
def delta_rule(
    qkv: int,
    beta: int,
    alpha: int,
    decay: int,
    dt_bias: int,
    state: int,
    out: int,
    offsets: int,
    slots: int,
    sizes: list[int],
) -> None: ...
def read_rows(
    fd: int, offsets: int, count: int, row_bytes: int, out: int
) -> tuple[int, int]: ...  # row that failed or -1, errno or -1 for the end of the file
def dequantize(w: MatrixTuple, out: int) -> None: ...
