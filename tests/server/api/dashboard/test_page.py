"""The live page in a browser, before a fake engine that moves when the test says so."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from engine.engine_view import EngineView, SequenceView
from server.api.app import Surroundings
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.browser import PATIENCE, PHONE, Browser
from tests.support.fake_engine import FakeEngine
from tests.support.http_app import MODEL, App, completion, make_app
from tests.support.threaded_app import in_thread

QUICK = Surroundings(snapshot_seconds=0.05)
HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
CHECK_ROW = """
const done = arguments[1];
import("/dashboard/requests_table.js").then(({ RequestsTable }) => {
  new RequestsTable().show({
    requests_running: 1, requests_waiting: 0,
    sequences: [{
      name: arguments[0], state: "running", prompt_tokens: 1, prompt_computed: 1, cached_tokens: 0,
      generated_tokens: 0, max_tokens: 4, preemptions: 0, age_seconds: 0,
    }],
  });
  done(document.querySelector("#requests tr:last-child .name").textContent);
});
"""


class Stage:
    """A page's server, and the strings that move its engine, pulled over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.page = f"{url}/dashboard"

    def advance(self, events: int) -> None:
        httpx.post(f"{self.url}/test/advance", params={"events": events}, timeout=PATIENCE)

    def end_stream(self) -> None:
        httpx.post(f"{self.url}/test/end", timeout=PATIENCE)


@contextmanager
def stage(browser: Browser, app: App) -> Iterator[Stage]:
    """The browser leaves the page at the end, so that the server need not wait for it."""

    @app.asgi.post("/test/advance")
    async def advance(events: int) -> None:
        await app.engine.advance(events)

    @app.asgi.post("/test/end")
    async def end() -> None:
        app.asgi.state.context.feed.close()

    with in_thread(app.asgi) as url:
        try:
            yield Stage(url)
        finally:
            browser.leave()


@contextmanager
def a_request(url: str, name: str, **fields: object) -> Iterator[None]:
    """Somebody else's request, under way until the engine moves on."""
    with ThreadPoolExecutor(1) as thread:
        body = completion(**fields)
        headers = {"X-Request-Id": name}
        answer = thread.submit(
            httpx.post, f"{url}/v1/completions", json=body, headers=headers, timeout=PATIENCE
        )
        yield
        assert answer.result().status_code == 200


def paused(tokenizer: Tokenizer, engine: FakeEngine | None = None, name: str = MODEL) -> App:
    app = make_app(tokenizer, engine, ServerConfig(name), QUICK)
    app.engine.pause()
    return app


def test_a_request_comes_and_goes(browser: Browser, tokenizer: Tokenizer) -> None:
    with stage(browser, paused(tokenizer)) as on:
        browser.open(on.page)
        browser.wait_for_text("#status", "ready")
        assert browser.text("#model") == MODEL
        assert browser.find("#no-requests").is_displayed()
        with a_request(on.url, "mine", max_tokens=3):
            browser.wait_for_text("#requests .name", "mine/0")
            assert browser.text("#requests td:nth-child(3)").startswith("0 of 3")
            assert browser.text("#legend [data-state=used] b") == "1"
            on.advance(3)
        browser.wait(lambda: browser.count("#requests tr") == 0)
        browser.wait_for_text("#first-token-more", "1 request")
        assert browser.console() == []


def test_pages_tell_of_themselves_to_the_keyboard_and_to_the_pointer(
    browser: Browser, tokenizer: Tokenizer
) -> None:
    with stage(browser, paused(tokenizer)) as on, a_request(on.url, "mine", max_tokens=1):
        browser.open(on.page)
        browser.wait_for_text("#requests .name", "mine/0")
        assert "arrow keys" in browser.text("#page-detail")
        browser.press("#pool", "Home")
        browser.wait_for_text("#page-detail", "Page 0: used, 15 of 16 tokens, held by mine/0")
        browser.press("#pool", "ArrowRight")
        browser.wait_for_text("#page-detail", "Page 1: free")
        browser.press("#pool", "Escape")
        browser.wait_for_text("#page-detail", "arrow keys")
        browser.point("#pool", 5, 5)
        browser.wait_for_text("#page-detail", "Page 0: used, 15 of 16 tokens, held by mine/0")
        browser.point("#pool", 40, 5)
        browser.wait_for_text("#page-detail", "Page 1: free")
        on.advance(1)


def test_requests_of_the_same_name_are_all_shown(browser: Browser, tokenizer: Tokenizer) -> None:
    with (
        stage(browser, paused(tokenizer)) as on,
        a_request(on.url, "twin", max_tokens=1),
        a_request(on.url, "twin", max_tokens=2),
    ):
        browser.open(on.page)
        browser.wait(lambda: browser.texts("#requests .name") == ["twin/0", "twin/0"])
        on.advance(2)


def test_a_page_that_nobody_sees_does_not_watch(browser: Browser, tokenizer: Tokenizer) -> None:
    app = paused(tokenizer)
    feed = app.asgi.state.context.feed
    hide = (
        "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'));"
    )
    with stage(browser, app) as on:
        browser.open(on.page)
        browser.wait(lambda: feed.num_watchers == 1)
        browser.run(hide, True)
        browser.wait(lambda: feed.num_watchers == 0)
        browser.run(hide, False)
        browser.wait(lambda: feed.num_watchers == 1)
        browser.run("delete document.hidden")


class ManyPages(FakeEngine):
    """A pool of 100,000 pages, of which every other one is used."""

    def view(self) -> EngineView:
        pages = tuple(range(0, 90_000, 2))
        sequence = SequenceView("x", (0,), True, pages, len(pages) * 16, 9, 9, 0, 0, 9, 0)
        return EngineView(16, 100_000, 90_000, dict.fromkeys(pages, 1), (), (sequence,))


def test_a_huge_pool_is_grouped_and_says_so(browser: Browser, tokenizer: Tokenizer) -> None:
    with stage(browser, paused(tokenizer, ManyPages(tokenizer))) as on:
        browser.open(on.page)
        browser.wait_for_text("#legend [data-state=used]", "45,000")
        assert browser.text("#legend [data-state=free] b") == "55,000"
        for size, most in (((1280, 900), 320), (PHONE, 280)):
            browser.resize(size)
            browser.wait(lambda most=most: 0 < browser.find("#pool").size["height"] <= most)
            assert "100,000 pages of 16 tokens; each square is" in browser.text("#pool-size")
        browser.press("#pool", "Home")
        browser.wait_for_text("#page-detail", "used, ")
        assert browser.text("#page-detail").startswith("Pages 0 to ")


def test_a_pool_of_eight_pages_has_a_square_for_each(
    browser: Browser, tokenizer: Tokenizer
) -> None:
    engine = FakeEngine(tokenizer)
    engine.view = lambda: EngineView(16, 8, 2, {}, (0, 1), ())  # type: ignore[method-assign]
    with stage(browser, paused(tokenizer, engine)) as on:
        browser.open(on.page)
        browser.wait_for_text("#pool-size", "8 pages of 16 tokens")
        assert "square" not in browser.text("#pool-size")
        browser.press("#pool", "Home")
        browser.wait_for_text("#page-detail", "Page 0: cached, 16 of 16 tokens")
        browser.press("#pool", "End")
        browser.wait_for_text("#page-detail", "Page 7: free")


def test_the_key_is_asked_for_checked_and_kept_in_the_tab(
    browser: Browser, tokenizer: Tokenizer
) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, api_keys=("right",)), surroundings=QUICK)
    with stage(browser, app) as on:
        browser.open(on.page)
        browser.wait(lambda: browser.find("#key-form").is_displayed())
        assert not browser.find("#view").is_displayed()
        assert browser.text("#key-error") == ""
        browser.write("#key", "wrong")
        browser.click("#key-form button")
        browser.wait_for_text("#key-error", "does not accept this key")
        assert browser.run("return sessionStorage.length") == 0
        browser.write("#key", "right")
        browser.click("#key-form button")
        browser.wait(lambda: browser.find("#view").is_displayed())
        browser.open(on.page)
        browser.wait(lambda: browser.find("#view").is_displayed())
        browser.write("#message", "hello")
        browser.click("#send")
        browser.wait_for_text("#chat .assistant", "quick")
        kept = "return [localStorage.length, document.cookie, location.href.includes('right')]"
        assert browser.run(kept) == [0, "", False]


def test_the_playground_streams_and_stops(browser: Browser, tokenizer: Tokenizer) -> None:
    app = paused(tokenizer)
    with stage(browser, app) as on:
        browser.open(on.page)
        browser.wait_for_text("#status", "ready")
        browser.click("details summary")
        browser.write("#system", "Be brief.")
        browser.write("#temperature", "0.5")
        browser.write("#max-tokens", "7")
        browser.write("#message", "hello")
        browser.click("#send")
        browser.wait(lambda: len(app.engine.live) == 1)
        (call,) = app.engine.live
        assert (call.request.sampling.temperature, call.request.sampling.max_tokens) == (0.5, 7)
        assert "Be brief." in tokenizer.decode(call.request.prompt_token_ids, skip_special=True)
        on.advance(1)
        browser.wait(lambda: browser.text("#chat .assistant") == " quick")
        on.advance(1)
        browser.wait(lambda: browser.text("#chat .assistant") == " quick brown")
        assert not browser.find("#send").is_enabled()
        browser.click("#stop")
        browser.wait_for_text("#chat-note", "Stopped.")
        browser.wait(lambda: app.engine.live == [])
        assert browser.find("#send").is_enabled()
        assert browser.console() == []


def test_an_answer_is_followed_by_what_it_took_and_the_next_question_remembers_it(
    browser: Browser, tokenizer: Tokenizer
) -> None:
    app = make_app(tokenizer, surroundings=QUICK)
    with stage(browser, app) as on:
        browser.open(on.page)
        browser.wait_for_text("#status", "ready")
        browser.run("document.getElementById('max-tokens').value = 2")
        for number in (1, 2):
            browser.write("#message", f"question {number}")
            browser.click("#send")
            browser.wait(lambda: browser.find("#send").is_enabled())
            browser.wait_for_text("#chat-note", "2 tokens in")
        assert browser.texts("#chat p") == [
            "question 1",
            " quick brown",
            "question 2",
            " quick brown",
        ]
        _, second = app.engine.calls.values()
        prompt = tokenizer.decode(second.request.prompt_token_ids, skip_special=True)
        assert "question 1" in prompt
        assert "quick brown" in prompt
        browser.click("#forget")
        assert browser.count("#chat p") == 0


def test_a_refused_question_says_why(browser: Browser, tokenizer: Tokenizer) -> None:
    with stage(browser, paused(tokenizer)) as on:
        browser.open(on.page)
        browser.wait_for_text("#status", "ready")
        browser.run("document.getElementById('message').value = 'long '.repeat(600)")
        browser.click("#send")
        browser.wait_for_text("#chat .error", "tokens")
        assert browser.count("#chat .assistant") == 0
        assert browser.find("#send").is_enabled()


def test_hostile_text_is_text(browser: Browser, tokenizer: Tokenizer) -> None:
    """A model's name, a request's and what a model writes."""
    app = make_app(tokenizer, config=ServerConfig(HOSTILE), surroundings=QUICK)
    app.engine.fallback = tokenizer.encode(HOSTILE, add_special=False, parse_special=False)
    with stage(browser, app) as on:
        browser.open(on.page)
        browser.wait_for_text("#model", HOSTILE)
        browser.write("#message", HOSTILE)
        browser.click("#send")
        browser.wait(lambda: browser.find("#send").is_enabled())
        assert browser.texts("#chat p") == [HOSTILE, HOSTILE]
        assert browser.run_async(CHECK_ROW, HOSTILE) == HOSTILE
        assert browser.count("img[src=x], p script, td script") == 0
        assert browser.run("return window.broken ?? null") is None
        assert browser.console() == []


def test_nothing_scrolls_sideways_on_a_phone(browser: Browser, tokenizer: Tokenizer) -> None:
    name = "a/" + "long-name-" * 12
    with (
        stage(browser, paused(tokenizer, name=name)) as on,
        a_request(on.url, "x" * 128, model=name, max_tokens=1),
    ):
        browser.resize(PHONE)
        browser.open(on.page)
        browser.wait(lambda: browser.count("#requests tr") == 1)
        browser.click("details summary")
        widths = "return [document.documentElement.scrollWidth, innerWidth]"
        needed, there = browser.run(widths)
        assert needed <= there == 320
        on.advance(1)


def test_a_lost_server_is_asked_again_less_and_less_often(
    browser: Browser, tokenizer: Tokenizer
) -> None:
    with stage(browser, paused(tokenizer)) as on:
        browser.open(on.page)
        browser.wait_for_text("#status", "ready")
        on.end_stream()
        browser.wait_for_text("#status", "the server has ended; again in 1 s")
        browser.wait_for_text("#status", "shutting down.; again in 2 s")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(
    browser: Browser, tokenizer: Tokenizer, scheme: str
) -> None:
    """Contrast of 4.5 and more, as WCAG 2 asks of text."""
    with stage(browser, paused(tokenizer)) as on:
        browser.resize(PHONE, dark=scheme == "dark")
        browser.open(on.page)
        browser.wait_for_text("#status", "ready")
        for ink, paper in (
            ("ink", "panel"),
            ("ink", "paper"),
            ("muted", "panel"),
            ("muted", "paper"),
            ("bad", "panel"),
            ("on-accent", "accent"),
        ):
            assert contrast(browser, ink, paper) >= 4.5, (scheme, ink, paper)


def contrast(browser: Browser, ink: str, paper: str) -> float:
    brighter, darker = sorted((luminance(browser, ink), luminance(browser, paper)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(browser: Browser, name: str) -> float:
    """Relative luminance of a colour of the page (WCAG 2)."""
    code = browser.run(
        "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])",
        f"--{name}",
    )
    parts = [int(str(code).strip()[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
