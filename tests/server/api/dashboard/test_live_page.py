"""The live page before a real server with work to do. Its pictures are kept in test-output/."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.checkpoints import tiny_llama
from tests.support.live_server import PATIENCE, LiveServer, live_server

PICTURES = Path(__file__).parents[4] / "test-output" / "dashboard"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    model = tiny_llama(tmp_path / "tiny", max_position_embeddings=4096)
    flags = ("--kv-cache-memory=2MiB", "--max-num-seqs=6", "--served-model-name=tiny")
    with live_server(model, *flags) as server:
        yield server


@contextmanager
def load(server: LiveServer, readers: int = 8) -> Iterator[None]:
    """Readers with a common head of their prompts, each asking again until the end."""
    ended = threading.Event()
    threads = [
        threading.Thread(target=_read, args=(server.url, number, ended))
        for number in range(readers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)


def _read(url: str, number: int, ended: threading.Event) -> None:
    prompt = [*range(1, 129), *[number + 1] * (16 * number)]
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 600, "ignore_eos": True}
    while not ended.is_set():
        headers = {"X-Request-Id": f"reader-{number}"}
        with httpx.stream(
            "POST",
            f"{url}/v1/completions",
            json={**body, "stream": True},
            headers=headers,
            timeout=PATIENCE,
        ) as answer:
            for _ in answer.iter_lines():
                if ended.is_set():
                    break


def test_pages_and_requests_move_under_load(browser: Browser, server: LiveServer) -> None:
    with load(server):
        browser.open(f"{server.url}/dashboard")
        browser.wait_for_text("#requests .name", "reader-")
        for state in ("used", "shared"):
            browser.wait(lambda state=state: number(browser, f"#legend [data-state={state}] b") > 0)
        browser.wait(lambda: number(browser, "#generated-rate") > 0)
        browser.wait(lambda: number(browser, "#waiting") > 0)
        browser.wait(lambda: "95th percentile" in browser.text("#first-token-more"))
        browser.press("#pool", "Home")
        browser.wait_for_text("#page-detail", "Page 0")
        browser.wait(lambda: colours_in_the_picture(browser) >= 4)
        take_pictures(browser)
        browser.leave()


def take_pictures(browser: Browser) -> None:
    for name, size, dark in (
        ("desktop", DESKTOP, False),
        ("dark", DESKTOP, True),
        ("phone", PHONE, False),
    ):
        browser.resize(size, dark=dark)
        browser.wait(
            lambda: browser.run("return document.getElementById('pool').clientWidth > 200")
        )
        browser.screenshot(PICTURES / f"{name}.png")
        assert (PICTURES / f"{name}.png").stat().st_size > 10_000
    assert browser.console() == []


def number(browser: Browser, selector: str) -> float:
    text = browser.text(selector).replace(",", "")
    return float(text) if text[:1].isdigit() else 0


def colours_in_the_picture(browser: Browser) -> int:
    """Colours of the canvas, as painted: paper, outlines, pages of some states."""
    found = browser.run(
        "const pool = document.getElementById('pool');"
        "const { data } = pool.getContext('2d').getImageData(0, 0, pool.width, pool.height);"
        "return new Set(new Uint32Array(data.buffer)).size;"
    )
    return int(str(found))
