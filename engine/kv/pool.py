"""The memory of the KV pages: one key and one value pool per layer.

Owned by the step runner; written and read by the attention layers through the page tables of a
step (`tables.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.config import EngineConfig
from engine.errors import CapacityError
from engine.gguf.shape import ModelShape

DTYPES = {"f32": torch.float32, "f16": torch.float16}


class KVPool:
    """keys[layer], values[layer]: (num_pages, page_tokens, kv_heads, head_dim)."""

    def __init__(self, shape: ModelShape, config: EngineConfig) -> None:
        self.page_tokens = config.page_tokens
        self.num_pages = config.kv_tokens // config.page_tokens
        size = (self.num_pages, config.page_tokens, shape.kv_heads, shape.head_dim)
        dtype = DTYPES[config.kv_type]
        try:
            # Untouched memory costs nothing until a page is first written.
            self.keys = [torch.empty(size, dtype=dtype) for _ in range(shape.layers)]
            self.values = [torch.empty(size, dtype=dtype) for _ in range(shape.layers)]
        except RuntimeError as error:
            raise CapacityError(
                f"no memory for {self.num_pages} KV pages; lower --kv-tokens ({error})"
            ) from None

    @property
    def num_bytes(self) -> int:
        return sum(pool.nbytes for pool in self._pools())

    def _pools(self) -> list[Tensor]:
        return [*self.keys, *self.values]
