"""Values of request fields that take more than one form on the wire.

Validators of the types in `requests`: each returns the one form used from there on, or raises
what pydantic reports with the field's name.
"""

from __future__ import annotations

from pydantic_core import PydanticCustomError

STOP_STRINGS_MAX = 16
STOP_STRING_CHARS_MAX = 1024
LOGIT_BIASES_MAX = 1024
TOKEN_ID_MAX = 2**32 - 1

Prompt = str | list[int]  # text, or token ids


def as_stop_strings(value: object) -> tuple[str, ...]:
    """One string or several."""
    strings = [value] if isinstance(value, str) else value
    if value is None:
        return ()
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise PydanticCustomError("stop_type", "Input should be a string or a list of strings")
    if len(strings) > STOP_STRINGS_MAX:
        raise PydanticCustomError(
            "stop_count", "At most {limit} stop strings are allowed", {"limit": STOP_STRINGS_MAX}
        )
    if not all(0 < len(item) <= STOP_STRING_CHARS_MAX for item in strings):
        raise PydanticCustomError(
            "stop_length",
            "A stop string should have 1 to {limit} characters",
            {"limit": STOP_STRING_CHARS_MAX},
        )
    return tuple(strings)


def as_logit_bias(value: object) -> dict[int, float]:
    """Token ids, which JSON can only write as strings, to what is added to their logits."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PydanticCustomError("bias_type", "Input should map token ids to numbers")
    if len(value) > LOGIT_BIASES_MAX:
        raise PydanticCustomError(
            "bias_count", "At most {limit} token ids are allowed", {"limit": LOGIT_BIASES_MAX}
        )
    biases: dict[int, float] = {}
    for key, bias in value.items():
        if not (key.isascii() and key.isdigit() and int(key) <= TOKEN_ID_MAX):
            raise PydanticCustomError("bias_key", "'{key}' is not a token id", {"key": key[:32]})
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
            raise PydanticCustomError(
                "bias_value", "The bias of token {key} should be from -100 to 100", {"key": key}
            )
        biases[int(key)] = float(bias)
    return biases


def _is_token_list(value: object) -> bool:
    return isinstance(value, list) and all(
        type(token) is int and 0 <= token <= TOKEN_ID_MAX for token in value
    )


def as_prompts(value: object) -> list[Prompt]:
    """One prompt or several, as text or token ids, to a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, str) for item in value):
            return list(value)
        if all(isinstance(item, list) and item and _is_token_list(item) for item in value):
            return list(value)
        if _is_token_list(value):
            return [value]
    raise PydanticCustomError(
        "prompt_type",
        "Input should be a string, a list of strings, a list of token ids,"
        " or a list of lists of token ids, and not empty",
    )


def as_content(value: object) -> object:
    """Text of a message; text parts are joined by newlines."""
    if not isinstance(value, list):
        return value
    texts: list[str] = []
    for position, part in enumerate(value):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            raise PydanticCustomError(
                "content_part",
                "part {position}: only parts of type 'text' with a string 'text' are supported,"
                " not {kind}",
                {"position": position, "kind": repr(kind)[:64]},
            )
        texts.append(part["text"])
    return "\n".join(texts)
