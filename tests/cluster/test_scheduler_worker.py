"""Scheduler and worker as real processes: streams, faults, drain."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from pathlib import Path

import pytest

from helpers.cluster import VOCAB, Answer, Cluster, alone, start
from helpers.eventually import eventually
from helpers.system import DEMO_MODEL
from services.common import rpc
from services.common.errors import (
    DeadlineExceeded,
    Draining,
    InvalidRequest,
    Overloaded,
    WorkerLost,
)
from services.pb import scheduler_pb2 as pb
from services.scheduler.driver import STREAM_TOKENS_MAX


async def test_many_streams_are_each_right(tmp_path: Path) -> None:
    rng = random.Random(5)
    prompts = [[rng.randrange(VOCAB) for _ in range(rng.randint(1, 300))] for _ in range(64)]
    async with Cluster.open(tmp_path, worker=("--kv-tokens", "4096")) as cluster:
        answers = await asyncio.gather(
            *(cluster.submit(p, max_tokens=40, seed=n) for n, p in enumerate(prompts))
        )
    for n, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        assert answer.error is None
        assert answer.tokens == alone(prompt, 40, n)
        assert answer.finish is not None
        assert answer.finish.reason == pb.FINISH_REASON_LENGTH
        assert answer.finish.prompt_tokens == len(prompt)
        assert answer.finish.completion_tokens == 40


async def test_stop_token_ends_a_stream_and_is_sent(tmp_path: Path) -> None:
    expected = alone([7], 5, 0)
    async with Cluster.open(tmp_path) as cluster:
        answer = await cluster.submit([7], max_tokens=100, stop=[expected[4]])
    assert answer.tokens == expected
    assert answer.finish is not None
    assert answer.finish.reason == pb.FINISH_REASON_STOP


async def test_bad_requests_are_refused_and_name_the_field(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path) as cluster:
        answers = {
            "prompt_tokens": [await cluster.submit([]), await cluster.submit([VOCAB])],
            "max_tokens": [
                await cluster.submit([1], max_tokens=0),
                await cluster.submit([1] * 100, max_tokens=5000),
            ],
            "sampling.min_p": [await cluster.submit([1], min_p=2.0)],
        }
    for param, refused in answers.items():
        for answer in refused:
            assert isinstance(answer.error, InvalidRequest)
            assert answer.error.param == param


async def test_cancelled_requests_make_room(tmp_path: Path) -> None:
    flags = ("--sequences-max", "2")
    async with Cluster.open(tmp_path, worker=flags) as cluster:
        running = [(await cluster.begun())[0] for _ in range(2)]
        waiting = asyncio.create_task(cluster.submit([9], max_tokens=3))
        for task in running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        answer = await asyncio.wait_for(waiting, 10)
    assert answer.tokens == alone([9], 3, 0)


async def test_full_queue_is_overloaded(tmp_path: Path) -> None:
    async with Cluster.open(
        tmp_path, worker=("--sequences-max", "1"), scheduler=("--queue-requests-max", "1")
    ) as cluster:
        task, _ = await cluster.begun()
        first = asyncio.create_task(cluster.submit([9], max_tokens=1))
        second = asyncio.create_task(cluster.submit([9], max_tokens=1))
        done, _ = await asyncio.wait(
            {first, second}, return_when=asyncio.FIRST_COMPLETED, timeout=10
        )
        error = done.pop().result().error
        task.cancel()
        await asyncio.gather(task, first, second, return_exceptions=True)
    assert isinstance(error, Overloaded)
    assert error.retry_after_ms > 0


async def test_client_that_does_not_read_is_cut_off_and_others_go_on(tmp_path: Path) -> None:
    count = STREAM_TOKENS_MAX + 500  # that many tokens more than gRPC reads ahead
    async with Cluster.open(tmp_path) as cluster, cluster.unread([5], max_tokens=4000) as slow:
        others = await asyncio.gather(*(cluster.submit([n], max_tokens=count) for n in range(3)))
        with pytest.raises(DeadlineExceeded, match="behind"), rpc.errors():
            async for _ in slow:
                pass
    assert [a.tokens for a in others] == [alone([n], count, 0) for n in range(3)]


async def test_deadline_ends_a_stream(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path, worker=("--sequences-max", "1")) as cluster:
        task, _ = await cluster.begun()
        answer = await cluster.submit([9], max_tokens=1, deadline_seconds=0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        after = await cluster.submit([9], max_tokens=1)
    assert isinstance(answer.error, DeadlineExceeded)
    assert after.tokens == alone([9], 1, 0)


async def test_killed_worker_is_reported_and_its_successor_served(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path) as cluster:
        task, answer = await cluster.begun()
        assert cluster.worker is not None
        await cluster.worker.kill()
        await task
        assert isinstance(answer.error, WorkerLost)
        assert answer.tokens == alone([1, 2, 3], len(answer.tokens), 0)
        await cluster.until_serving(False)
        await cluster.start_worker()
        await cluster.until_serving(True)
        again = await cluster.submit([5], max_tokens=4)
    assert again.error is None
    assert again.tokens == alone([5], 4, 0)


async def test_killed_scheduler_leaves_a_worker_for_the_next(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path, worker=("--sequences-max", "1")) as cluster:
        task, answer = await cluster.begun()
        assert cluster.scheduler is not None
        await cluster.scheduler.kill()
        await task
        assert isinstance(answer.error, WorkerLost)
        await cluster.start_scheduler()
        await cluster.until_serving(True)
        again = await cluster.submit([5], max_tokens=4)
    assert again.error is None
    assert again.tokens == alone([5], 4, 0)


async def test_second_scheduler_takes_the_worker_over_for_good(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path) as cluster:
        first = cluster.scheduler
        assert first is not None
        cluster.scheduler = None
        folder = tmp_path / "next"
        folder.mkdir()
        address = f"unix:{folder}/s.sock"
        flags = ("--worker", cluster.worker_address, "--listen", address)
        second = await start("services.scheduler", *flags)
        try:
            assert await first.wait() == 1
            assert any("another scheduler took over" in line for line in first.stderr)
            assert second.child.returncode is None
        finally:
            await second.kill()


async def test_sigterm_lets_streams_finish_and_refuses_new_ones(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path) as cluster:
        answer = Answer()
        task = asyncio.create_task(cluster.submit([1], max_tokens=600, answer=answer))
        await eventually(lambda: answer.tokens)
        assert cluster.scheduler is not None
        cluster.scheduler.child.send_signal(signal.SIGTERM)
        await cluster.until_serving(False)
        late = await cluster.submit([2], max_tokens=1)
        await task
        code = await cluster.scheduler.wait()
    assert answer.tokens == alone([1], 600, 0)
    assert isinstance(late.error, Draining | WorkerLost)
    assert code == 0


async def test_drain_that_takes_too_long_says_so(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path, scheduler=("--drain-seconds", "0.1")) as cluster:
        task, _ = await cluster.begun()
        assert cluster.scheduler is not None
        assert await cluster.scheduler.stop() == 3
        await task


async def test_demo_model_gives_each_seed_its_own_text(tmp_path: Path) -> None:
    prompt = [300, 301, 302, 303]
    async with Cluster.open(tmp_path, model=str(DEMO_MODEL)) as cluster:
        alone_answers = [await cluster.submit(prompt, seed=n) for n in range(8)]
        together = await asyncio.gather(*(cluster.submit(prompt, seed=n) for n in range(8)))
    assert [a.tokens for a in together] == [a.tokens for a in alone_answers]
    assert all(len(a.tokens) == 16 for a in together)


async def test_preempted_streams_of_a_real_model_go_on_as_if_alone(tmp_path: Path) -> None:
    prompts = [[300 + n, 301, 302, 303] for n in range(6)]
    flags = ("--kv-tokens", "160", "--threads", "2")  # six of 64 tokens need 384
    async with Cluster.open(tmp_path, model=str(DEMO_MODEL), worker=flags) as cluster:
        alone_answers = [await cluster.submit(p, max_tokens=60, seed=3) for p in prompts]
        together = await asyncio.gather(
            *(cluster.submit(p, max_tokens=60, seed=3) for p in prompts)
        )
        assert cluster.scheduler is not None
        metrics = await cluster.scheduler.metrics()
    assert metrics["lamina_scheduler_preemptions_total"] > 0
    assert [a.tokens for a in together] == [a.tokens for a in alone_answers]
    assert all(len(a.tokens) == 60 for a in together)
