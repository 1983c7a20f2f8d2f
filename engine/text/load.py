"""The text side of a model file, without its weights.

The gateway calls `load_text` once at start; only the header of the file is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelFileError, TextError
from engine.gguf.reader import open_gguf
from engine.text.chat import ChatTemplate
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSide:
    """What a process needs to speak for a model it does not run."""

    tokenizer: Tokenizer
    chat_template: ChatTemplate | None  # None: the file has none, so there is no chat
    model_name: str
    architecture: str
    context_length: int  # tokens


def load_text(path: Path | str) -> TextSide:
    """Read tokenizer, chat template and names. Raises ModelFileError naming the file."""
    with open_gguf(path) as model:
        metadata = model.metadata
        architecture = model.architecture
        try:
            tokenizer = Tokenizer.from_metadata(metadata)
            template = ChatTemplate.from_metadata(metadata, tokenizer)
        except TextError as error:
            raise ModelFileError(path, str(error)) from error
        return TextSide(
            tokenizer=tokenizer,
            chat_template=template,
            model_name=metadata.text("general.name", Path(path).stem),
            architecture=architecture,
            context_length=metadata.integer(f"{architecture}.context_length", least=1),
        )
