"""The engine on `qwen4exp` against the reference: logits, every layer's traces, choices, drafts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import ModelFileError, StepError
from engine.gguf.reader import open_gguf
from engine.gguf.shape import Qwen4ExpShape, model_shape
from engine.local import all_logits, generate
from engine.model.qwen4exp import Qwen4Exp
from engine.step import ModelEngine
from helpers.engines import opened
from helpers.qwen4exp_vectors import (
    LLAMACPP_RMS,
    QUANTISED,
    allowed,
    arrays,
    quantised,
    unpacked,
)

BOUND = 1e-4
GREEDY = Sampling(temperature=0)
SEQUENCE = SequenceId(1)
Golden = dict[str, NDArray[np.generic]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("qwen4exp")


@pytest.fixture(scope="module")
def trunk(folder: Path) -> Path:
    return unpacked("tiny-f16", folder)


@pytest.fixture(scope="module")
def golden() -> Golden:
    return arrays("golden")


@pytest.fixture(scope="module")
def drafting(trunk: Path, folder: Path) -> Iterator[ModelEngine]:
    """The trunk with the draft block from a file of its own."""
    with opened(trunk, draft_model=unpacked("tiny-mtp-f16", folder)) as engine:
        yield engine


def largest(actual: NDArray[np.generic], expected: NDArray[np.generic]) -> float:
    return float(np.abs(np.asarray(actual, np.float64) - np.asarray(expected, np.float64)).max())


def model_of(engine: ModelEngine) -> Qwen4Exp:
    model = engine.model
    assert isinstance(model, Qwen4Exp)
    return model


def traced(engine: ModelEngine, prompt: list[int]) -> dict[str, NDArray[np.generic]]:
    """What the model's parts give on one prompt, by "name.layer"."""
    seen: dict[str, NDArray[np.generic]] = {}
    probe = model_of(engine).probe
    probe.listener = lambda name, layer, value: seen.update(
        {f"{name}.{layer}": value.clone().numpy()}
    )
    try:
        all_logits(engine, prompt)
    finally:
        probe.listener = None
    return seen


@pytest.mark.parametrize("prompt", ["p40", "p300"])
def test_logits_equal_the_reference_at_every_position(
    prompt: str, trunk: Path, golden: Golden
) -> None:
    with opened(trunk) as engine:
        logits = all_logits(engine, golden[prompt].tolist())
    assert largest(logits, golden[f"{prompt}_logits"]) < BOUND


@pytest.mark.parametrize("type", QUANTISED)
def test_logits_of_quantised_files_equal_the_reference(type: str) -> None:
    refs = arrays("quant_refs")
    with opened(quantised(type)) as engine:
        short = all_logits(engine, refs["p40"].tolist())
        long = all_logits(engine, refs["p300"].tolist())
    assert largest(short, refs[f"{type}_ref"]) < BOUND
    assert largest(long[-1], refs[f"{type}_ref_p300_last"]) < BOUND


@pytest.mark.parametrize("type", QUANTISED)
def test_rounded_activations_stay_nearer_to_the_reference_than_llamacpp(type: str) -> None:
    refs = arrays("quant_refs")
    with opened(quantised(type), activations="int8") as engine:
        logits = all_logits(engine, refs["p40"].tolist())
    difference = logits - np.asarray(refs[f"{type}_ref"], np.float64)
    assert 1e-4 < np.sqrt(np.square(difference).mean()) < 0.8 * LLAMACPP_RMS[type]


def test_greedy_tokens_equal_the_reference(trunk: Path, golden: Golden) -> None:
    with opened(trunk) as engine:
        made = generate(engine, [golden["p40"].tolist()], GREEDY, max_tokens=32)
        assert [each.token.token for each in made] == golden["p40_greedy32"].tolist()


def test_every_part_of_every_layer_equals_the_reference(trunk: Path, golden: Golden) -> None:
    with opened(trunk) as engine:
        seen = traced(engine, golden["p40"].tolist())
    names = [f"{part}.{i}" for part in ("attn_in", "attn_out", "ffn_out") for i in range(4)]
    names += [f"layer_out.{i}" for i in range(4)]
    for name in names:
        assert largest(seen[name], golden[f"p40_{name}"]) < BOUND, name
    assert largest(seen["after_ngram.1"], golden["p40_after_ple"]) < BOUND


@pytest.mark.parametrize("prompt", ["p40", "p300"])
def test_experts_equal_the_reference_best_first(prompt: str, trunk: Path, golden: Golden) -> None:
    with opened(trunk) as engine:
        seen = traced(engine, golden[prompt].tolist())
    for layer in range(4):
        expected = golden[f"{prompt}_experts.{layer}"]
        np.testing.assert_array_equal(seen[f"experts.{layer}"], expected)


def test_attended_positions_equal_the_reference(trunk: Path, golden: Golden) -> None:
    tokens = len(golden["p300"])
    with opened(trunk) as engine:
        blocks = traced(engine, golden["p300"].tolist())["index_blocks.3"]
    mask = np.zeros((tokens, tokens), np.bool_)
    for t, chosen in enumerate(blocks):
        for block in np.asarray(chosen)[np.asarray(chosen) >= 0]:
            mask[t, 4 * block : 4 * block + 4] = True
        mask[t, (t + 1) // 4 * 4 : t + 1] = True
    np.testing.assert_array_equal(mask, allowed(golden["p300_qsa_allowed.3"], tokens))


def test_recurrent_state_equals_the_reference(trunk: Path, golden: Golden) -> None:
    with opened(trunk) as engine:
        start(engine, golden["p40"])
        state = engine.snapshot(SEQUENCE).slot.arrays["delta_state", 0]
    assert largest(state.numpy(), golden["p40_gdn_state.0"]) < BOUND


@pytest.mark.parametrize("prompt", ["p40", "p300"])
def test_table_rows_equal_the_reference(prompt: str, trunk: Path, golden: Golden) -> None:
    with opened(trunk) as engine:
        ngram = model_of(engine).ngram
        assert ngram is not None
        window = np.full(ngram.hash.window_tokens, ngram.hash.end_token)
        rows = ngram.hash.rows(window, golden[prompt].astype(np.int64))
    np.testing.assert_array_equal(rows, golden[f"{prompt}_ple_rows"])


def start(engine: ModelEngine, prompt: NDArray[np.generic]) -> torch.Tensor:
    """Open the sequence and compute the prompt; the trunk's streams at every position."""
    opening = SequenceStart(sequence=SEQUENCE, sampling=GREEDY, num_prompt_tokens=len(prompt))
    engine.reset()
    engine.step(StepRequest(step=1, starts=(opening,)))
    pages = tuple(range(len(prompt) // engine.facts.page_tokens + 1))
    entry = StepEntry(
        sequence=SEQUENCE,
        tokens=tuple(int(token) for token in prompt),
        position=0,
        new_pages=pages,
        sample=False,
    )
    return engine.forward_hidden((entry,))


def test_draft_logits_equal_the_reference(drafting: ModelEngine, golden: Golden) -> None:
    hidden = start(drafting, golden["p40"])
    logits, wide = drafting.draft(SEQUENCE, hidden, tuple(golden["mtp_next"].tolist()), 0)
    assert largest(logits, golden["mtp_logits"]) < BOUND
    assert largest(wide.numpy().reshape(40, 4, -1), golden["mtp_wide"]) < BOUND


def test_chained_drafts_equal_the_reference(drafting: ModelEngine, golden: Golden) -> None:
    hidden = start(drafting, golden["p40"])
    _, wide = drafting.draft(SEQUENCE, hidden, tuple(golden["mtp_next"].tolist()), 0)
    for index, token in enumerate(golden["mtp_chain_tokens"].tolist()):
        logits, wide = drafting.draft(SEQUENCE, wide[-1:], (token,), 40 + index)
        assert largest(logits[0], golden["mtp_chain_logits"][index]) < BOUND


def test_drafting_leaves_the_sequence_as_it_was(drafting: ModelEngine, golden: Golden) -> None:
    prompt, following = golden["p40"], (StepEntry(sequence=SEQUENCE, tokens=(5, 6), position=40),)
    start(drafting, prompt)
    expected = drafting.forward_logits(following)
    hidden = start(drafting, prompt)
    drafting.draft(SEQUENCE, hidden, tuple(golden["mtp_next"].tolist()), 0)
    np.testing.assert_array_equal(drafting.forward_logits(following), expected)


def test_drafts_that_have_no_place_are_refused(drafting: ModelEngine, golden: Golden) -> None:
    hidden = start(drafting, golden["p40"])[:1]
    with pytest.raises(StepError, match="no pages for 1 drafts at 48"):
        drafting.draft(SEQUENCE, hidden, (1,), 48)
    with pytest.raises(StepError, match="sequence 9 is not open"):
        drafting.draft(SequenceId(9), hidden, (1,), 0)


def test_model_without_a_draft_block_refuses_to_draft(trunk: Path, golden: Golden) -> None:
    with opened(trunk) as engine:
        hidden = start(engine, golden["p40"])
        with pytest.raises(StepError, match="no draft block"):
            engine.draft(SEQUENCE, hidden[:1], (1,), 0)


def test_draft_file_is_no_model_of_its_own(folder: Path) -> None:
    with (
        open_gguf(unpacked("tiny-mtp-f16", folder)) as model,
        pytest.raises(ModelFileError, match=r"tensor output_hc_norm.weight is missing"),
    ):
        model_shape(model)


def test_file_named_for_a_part_that_it_does_not_bring_is_refused(trunk: Path, folder: Path) -> None:
    other = unpacked("tiny-mtp-f16", folder)
    for options, reason in (
        ({"draft_model": quantised("Q2_0")}, "tiny-Q2_0.gguf: .* draft block .* it holds none"),
        ({"ngram_table": other}, "tiny-mtp-f16.gguf: .* n-gram table .* the model has its own"),
    ):
        with pytest.raises(ModelFileError, match=reason), opened(trunk, **options):
            pass


def test_draft_block_takes_its_index_from_its_own_file(trunk: Path, folder: Path) -> None:
    companion = unpacked("tiny-mtp-f16", folder)
    with open_gguf(trunk, companions=[companion]) as model:
        shape = model_shape(model)
    assert isinstance(shape, Qwen4ExpShape)
    assert (shape.layers, shape.draft_layers, shape.ratios) == (4, 1, (0, 0, 0, 4, 4))
