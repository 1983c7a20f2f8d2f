"""The C++ module; see csrc/bindings.cpp. Addresses are those of checked, contiguous arrays."""

MatrixTuple = tuple[int, int, int, int, int]  # data, type, rows, cols, experts

def has_type(type: int) -> bool: ...
def variants() -> list[str]: ...
def variant() -> str: ...
def set_variant(name: str) -> bool: ...
def num_threads() -> int: ...
def set_num_threads(count: int) -> None: ...
def linear(x: int, tokens: int, w: MatrixTuple, int8: bool, y: int) -> None: ...
def expert_ffn(
    x: int,
    tokens: int,
    k: int,
    gate: MatrixTuple,
    up: MatrixTuple,
    down: MatrixTuple,
    ids: int,
    weights: int,
    int8: bool,
    y: int,
) -> None: ...
def embedding(ids: int, tokens: int, table: MatrixTuple, out: int) -> None: ...
def rms_norm(x: int, weight: int, eps: float, rows: int, dim: int, out: int) -> None: ...
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
def attention(
    q: int,
    out: int,
    k_pool: int,
    v_pool: int,
    half: bool,
    page_table: int,
    sequence: int,
    positions: int,
    sizes: list[int],
    scale: float,
) -> None: ...
def dequantize(w: MatrixTuple, out: int) -> None: ...
