"""The chat page in a real browser, on a phone's and a desktop's screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from helpers.browser import CHROMIUM, DESKTOP, MISSING, PHONE, chromium
from helpers.eventually import eventually
from helpers.running_gateway import RunningGateway
from services.common.errors import WorkerLost

SCREENS = [pytest.param(PHONE, id="phone"), pytest.param(DESKTOP, id="desktop")]

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason=MISSING),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@dataclass(frozen=True)
class Chat:
    """The page as its user sees it."""

    page: Page
    complaints: list[str]  # of the browser's console

    async def ask(self, text: str) -> None:
        await self.page.get_by_label("Message").fill(text)
        await self.page.keyboard.press("Enter")

    async def wait_for_answer(self, text: str, *, turn: int = 0) -> None:
        await expect(self.page.get_by_label("Answer").nth(turn)).to_contain_text(text)

    async def wait_for_end(self, *, turn: int = 0) -> None:
        """Of an answer; what it says of its speed is there before."""
        await self.wait_for_answer("tokens/s", turn=turn)
        answer = self.page.get_by_label("Answer").nth(turn)
        await expect(answer).not_to_have_attribute("aria-busy", "true")

    async def overflows(self) -> bool:
        width: int = await self.page.evaluate("document.documentElement.scrollWidth")
        assert self.page.viewport_size is not None
        return width > self.page.viewport_size["width"]


@asynccontextmanager
async def chat(
    browser: Browser, served: RunningGateway, screen: tuple[int, int] = DESKTOP
) -> AsyncIterator[Chat]:
    """A fresh page that has found its server."""
    width, height = screen
    context = await browser.new_context(viewport={"width": width, "height": height})
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(served.url)
    await expect(page.get_by_role("status")).to_have_text(served.model)
    yield Chat(page, complaints)
    await context.close()


@pytest.mark.parametrize("screen", SCREENS)
async def test_page_streams_an_answer(
    browser: Browser, served: RunningGateway, screen: tuple[int, int]
) -> None:
    served.scheduler.script = served.saying("Good day, and welcome.")
    served.scheduler.hold_after = len(served.ids("Good day"))
    async with chat(browser, served, screen) as view:
        await view.ask("Hello?")
        await view.wait_for_answer("Good day")  # while the rest is held back
        await expect(view.page.get_by_role("button", name="Stop")).to_be_visible()
        served.scheduler.gate.set()
        await view.wait_for_answer("Good day, and welcome.")
        await view.wait_for_answer("tokens/s")
        await view.wait_for_answer("first token")
        await expect(view.page.get_by_role("button", name="Send")).to_be_visible()
        assert not await view.overflows()
        assert view.complaints == []


@pytest.mark.parametrize("screen", SCREENS)
async def test_page_stops_an_answer(
    browser: Browser, served: RunningGateway, screen: tuple[int, int]
) -> None:
    served.scheduler.script = served.saying("Good day, and welcome.")
    served.scheduler.hold_after = 5
    async with chat(browser, served, screen) as view:
        await view.ask("Hello?")
        await view.wait_for_answer("Good")
        await view.page.get_by_role("button", name="Stop").click()
        await view.wait_for_answer("stopped")
        await eventually(lambda: len(served.scheduler.cancelled) == 1)
        await expect(view.page.get_by_role("button", name="Send")).to_be_visible()
        assert view.complaints == []


@pytest.mark.parametrize("screen", SCREENS)
async def test_page_does_not_scroll_sideways(
    browser: Browser, served: RunningGateway, screen: tuple[int, int]
) -> None:
    code = "```python\nprint('" + "wide " * 60 + "')\n```\n"
    served.scheduler.script = served.saying(code + "unbroken" * 40)
    async with chat(browser, served, screen) as view:
        assert not await view.overflows()
        await view.ask("nobreak" * 60)
        await view.wait_for_answer("tokens/s")
        await expect(view.page.locator("pre code")).to_contain_text("wide wide")
        assert not await view.overflows()


async def test_page_sends_the_whole_conversation(browser: Browser, served: RunningGateway) -> None:
    async with chat(browser, served) as view:
        served.scheduler.script = served.saying("First answer.")
        await view.ask("First question")
        await view.wait_for_answer("tokens/s")
        served.scheduler.script = served.saying("Second answer.")
        await view.ask("Second question")
        await view.wait_for_answer("Second answer.", turn=1)
        prompt = served.tokenizer.decode(served.scheduler.requests[1].prompt_tokens)
    texts = ["First question", "First answer.", "Second question"]
    positions = [prompt.index(text) for text in texts]
    assert positions == sorted(positions)


async def test_page_new_chat_forgets_the_conversation(
    browser: Browser, served: RunningGateway
) -> None:
    served.scheduler.script = served.saying("First answer.")
    async with chat(browser, served) as view:
        await view.ask("First question")
        await view.wait_for_end()
        await view.page.get_by_role("button", name="New chat").click()
        await expect(view.page.get_by_label("Answer")).to_have_count(0)
        await view.ask("Second question")
        await view.wait_for_answer("First answer.")
        first, second = (len(request.prompt_tokens) for request in served.scheduler.requests)
        assert second <= first + len(served.ids("Second question"))


async def test_page_shift_enter_makes_a_line(browser: Browser, served: RunningGateway) -> None:
    async with chat(browser, served) as view:
        await view.page.get_by_label("Message").fill("one")
        await view.page.keyboard.press("Shift+Enter")
        await view.page.keyboard.type("two")
        await expect(view.page.get_by_label("Message")).to_have_value("one\ntwo")
        assert not served.scheduler.requests


async def test_page_shows_failures_and_tries_again(
    browser: Browser, served: RunningGateway
) -> None:
    served.scheduler.script = served.saying("Good day.")
    served.scheduler.hold_after, served.scheduler.failure = 2, WorkerLost("a worker is gone")
    async with chat(browser, served) as view:
        await view.ask("Hello?")
        await expect(view.page.get_by_role("alert")).to_contain_text("a worker is gone")
        served.scheduler.failure, served.scheduler.hold_after = None, None
        await view.page.get_by_role("button", name="Try again").click()
        await view.wait_for_answer("Good day.")
        await expect(view.page.get_by_role("alert")).to_have_count(0)


async def test_page_never_runs_what_a_model_writes(
    browser: Browser, served: RunningGateway
) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>\n\n`<b>x</b>` **<i>y</i>**"
    served.scheduler.script = served.saying(hostile)
    async with chat(browser, served) as view:
        await view.ask("Hello?")
        await view.wait_for_answer("<img src=x onerror=alert(1)><script>alert(2)</script>")
        await view.wait_for_end()
        answer = view.page.get_by_label("Answer")
        assert await answer.locator("img, script, b, i").count() == 0
        await expect(answer.locator("code")).to_have_text("<b>x</b>")
        await expect(answer.locator("strong")).to_have_text("<i>y</i>")
        assert view.complaints == []


async def test_page_loads_nothing_from_elsewhere(browser: Browser, served: RunningGateway) -> None:
    hosts: set[str] = set()
    async with chat(browser, served) as view:
        view.page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        await view.page.reload()
        await expect(view.page.get_by_role("status")).to_have_text(served.model)
    assert hosts == {served.url.removeprefix("http://")}


async def test_page_waits_for_the_model(browser: Browser, served: RunningGateway) -> None:
    await served.scheduler.set_serving(False)
    await eventually(lambda: served.gateway.not_ready_reason is not None)
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(served.url)
    await expect(page.get_by_role("status")).to_have_text("loading model")
    await page.get_by_label("Message").fill("too early")
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await asyncio.gather(served.scheduler.set_serving(True))
    await expect(page.get_by_role("status")).to_have_text(served.model)
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    await context.close()
