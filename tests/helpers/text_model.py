"""A model file with a text side and no weights: enough for a gateway."""

from __future__ import annotations

from pathlib import Path

from engine.gguf.writer import write_gguf
from helpers.text_metadata import text_metadata

CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_text_model(path: Path, *, template: str | None = CHATML) -> Path:
    """Write the file; without a template the model cannot chat."""
    metadata: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": "text only",
        "llama.context_length": 4096,
        **text_metadata(),
    }
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    write_gguf(path, metadata, [])
    return path
