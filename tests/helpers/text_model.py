"""A model file with a text side and no weights: enough for a gateway.

The vocabulary is the 256 bytes, a few merged pairs, `<|im_start|>`, `<|im_end|>` (which ends an
answer) and `<|unused|>`; the chat template is ChatML.
"""

from __future__ import annotations

from pathlib import Path

from engine.gguf.writer import write_gguf
from engine.text.vocabulary import BYTE_CHARACTERS, TokenType

MERGES = ("t h", "th e", "o n", "o o", "Ġ d")
CONTROLS = ("<|im_start|>", "<|im_end|>", "<|unused|>")
TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def text_metadata(*, template: str | None = TEMPLATE) -> dict[str, object]:
    """The keys of the text side; ids 0 to 255 are the bytes."""
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*BYTE_CHARACTERS, *merged, *CONTROLS]
    types = [TokenType.NORMAL] * (256 + len(merged)) + [TokenType.CONTROL] * len(CONTROLS)
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(type) for type in types],
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
    }
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return metadata


def write_text_model(path: Path, *, template: str | None = TEMPLATE) -> Path:
    """Write the file; without a template the model cannot chat."""
    head: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": "text only",
        "llama.context_length": 4096,
    }
    write_gguf(path, head | text_metadata(template=template), [])
    return path
