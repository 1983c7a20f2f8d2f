"""Everything a gateway needs to know of a model: its text side, without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelFileError, TextError
from engine.gguf.reader import open_gguf
from engine.text.chat import ChatTemplate
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSide:
    """Tokenizer, chat template (None: the model is no chat model) and names."""

    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    model_name: str
    architecture: str
    context_length: int


def load_text(path: Path) -> TextSide:
    """Read a model file's metadata. Raises ModelFileError naming file and reason."""
    with open_gguf(path) as model:
        metadata, architecture = model.metadata, model.architecture
        try:
            tokenizer = Tokenizer.from_metadata(metadata)
            template = ChatTemplate.from_metadata(metadata, tokenizer)
        except TextError as error:
            raise ModelFileError(path, str(error)) from None
        return TextSide(
            tokenizer=tokenizer,
            chat_template=template,
            model_name=metadata.text("general.name", path.stem),
            architecture=architecture,
            context_length=metadata.integer(f"{architecture}.context_length", 0),
        )
