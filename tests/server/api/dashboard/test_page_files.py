"""What the page is made of: files of our own, from this host alone, open to all."""

import re

import httpx
import pytest

from server.api.dashboard.page_files import INDEX, NAMES, page_file
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, error_of, in_memory, make_app

SVG_NAMESPACE = "http://www.w3.org/2000/svg"  # a name, which nobody fetches
every_file = pytest.mark.parametrize("name", [INDEX, *sorted(NAMES)])


def text_of(name: str) -> str:
    return bytes(page_file(name).body).decode()


@every_file
def test_no_file_refers_to_another_host(name: str) -> None:
    text = text_of(name).replace(SVG_NAMESPACE, "")
    assert not re.search(r"https?:|wss?:|[\"'(]//", text)


@every_file
def test_no_file_makes_markup_from_text(name: str) -> None:
    markup = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|style=|onclick="
    )
    assert not re.search(markup, text_of(name))


@every_file
def test_no_key_is_kept_beyond_the_tab(name: str) -> None:
    assert not re.search(r"localStorage|indexedDB|document\.cookie", text_of(name))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_file_is_used(name: str) -> None:
    others = "".join(text_of(other) for other in [INDEX, *NAMES] if other != name)
    assert name in others


@pytest.mark.parametrize("path", ["/dashboard", *(f"/dashboard/{name}" for name in sorted(NAMES))])
async def test_every_file_is_served_without_a_key_under_a_strict_policy(
    tokenizer: Tokenizer, path: str
) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, api_keys=("secret",)))
    async with in_memory(app) as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    kind = kinds.get(path.rpartition(".")[2], "text/html")
    assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize("keys", [(), ("secret",)])
async def test_the_servers_address_leads_to_the_page(
    tokenizer: Tokenizer, keys: tuple[str, ...]
) -> None:
    async with in_memory(make_app(tokenizer, config=ServerConfig(MODEL, api_keys=keys))) as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/dashboard")


async def test_without_a_page_there_is_no_way_to_it(tokenizer: Tokenizer) -> None:
    async with in_memory(
        make_app(tokenizer, config=ServerConfig(MODEL, dashboard=False))
    ) as client:
        answer = await client.get("/")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_url")


@pytest.mark.parametrize(
    "file", ["index.html", "feed.py", "..%2Ffeed.py", "%2e%2e%2ffeed.py", "page", "x" * 1000]
)
async def test_nothing_else_is_served(client: httpx.AsyncClient, file: str) -> None:
    answer = await client.get(f"/dashboard/{file}")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_url")
    assert len(answer.text) < 500
