"""The life of a page, seen from outside: a small pool, many clients, and what /metrics tells."""

import asyncio
import random

import httpx
import pytest

from tests.support.live_server import LiveServer

PAGE_SIZE = 4
NUM_PAGES = 48
BYTES_PER_TOKEN = 2 * 2 * 2 * 64 * 4  # K and V, layers, heads, head size, float32

SERVER_FLAGS = (
    f"--page-size={PAGE_SIZE}",
    f"--kv-cache-memory={NUM_PAGES * PAGE_SIZE * BYTES_PER_TOKEN}",
    "--max-num-seqs=16",
    "--max-num-batched-tokens=64",
    "--debug-endpoints",
)

Json = dict[str, object]


def ids(length: int, seed: int = 0) -> list[int]:
    dice = random.Random(f"{length} {seed}")
    return [dice.randrange(256) for _ in range(length)]


async def complete(
    client: httpx.AsyncClient, prompt: list[int], **fields: object
) -> httpx.Response:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0} | fields
    return await client.post("/v1/completions", json=body | {"ignore_eos": True})


def texts(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [choice["text"] for choice in response.json()["choices"]]


def assert_idle(server: LiveServer) -> None:
    found = server.metrics()
    states = [found[f"octavo_pages {state}"] for state in ("free", "used", "cached")]
    assert sum(states) == found["octavo_page_budget"] == NUM_PAGES
    assert found["octavo_pages used"] == 0
    assert found["octavo_requests_running"] == found["octavo_requests_waiting"] == 0


async def test_six_requests_in_a_pool_for_two_all_get_their_solo_text(server: LiveServer) -> None:
    """Case C07: preempted texts are neither lost nor repeated, with a penalty and with n = 2."""
    fields: list[Json] = [{} for _ in range(6)]
    fields[1] = {"presence_penalty": 1.5}
    fields[2] = {"n": 2, "temperature": 1.0, "seed": 11}
    async with server.client() as client:
        jobs = [(ids(30, i), {"max_tokens": 60} | more) for i, more in enumerate(fields)]
        solo = [texts(await complete(client, prompt, **more)) for prompt, more in jobs]
        before = server.metrics()["octavo_preemptions_total"]
        for _ in range(3):
            answers = await asyncio.gather(*(complete(client, p, **more) for p, more in jobs))
            assert [texts(answer) for answer in answers] == solo
    assert server.metrics()["octavo_preemptions_total"] > before
    assert_idle(server)


async def test_a_prompt_that_can_never_fit_is_refused_with_the_numbers(server: LiveServer) -> None:
    """Case C06."""
    slots = NUM_PAGES * PAGE_SIZE
    async with server.client() as client:
        refused, cut, *small = await asyncio.gather(
            complete(client, ids(slots + 1)),
            complete(client, ids(slots - 5), max_tokens=50),
            *(complete(client, ids(5, i)) for i in range(5)),
        )
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert str(slots + 1) in error["message"]
    assert f"{slots}, all that the KV cache can hold" in error["message"]
    assert cut.json()["choices"][0]["finish_reason"] == "length"
    assert cut.json()["usage"]["completion_tokens"] == 5
    assert all(answer.status_code == 200 for answer in small)
    assert_idle(server)


async def test_a_prompt_seen_before_is_taken_from_the_cache(server: LiveServer) -> None:
    prompt = ids(3 * PAGE_SIZE + 2, 77)
    async with server.client() as client:
        cold = (await complete(client, prompt)).json()
        warm = (await complete(client, prompt)).json()
        salted = (await complete(client, prompt, cache_salt="other")).json()
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == 3 * PAGE_SIZE
    assert salted["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert warm["choices"] == cold["choices"] == salted["choices"]


@pytest.mark.parametrize("tail", [0, PAGE_SIZE // 2])
async def test_different_ends_on_one_head_do_not_touch_each_other(
    server: LiveServer, tail: int
) -> None:
    """Case D04: the head ends at and inside a page."""
    head = ids(2 * PAGE_SIZE + tail, 5)
    ends = [[*head, end] for end in (1, 2, 3, 4)]
    async with server.client() as client:
        salts = [texts(await complete(client, p, cache_salt=str(p[-1]))) for p in ends]
        for _ in range(2):
            answers = await asyncio.gather(*(complete(client, p) for p in ends))
            assert [texts(answer) for answer in answers] == salts


@pytest.mark.parametrize("length", [PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 3 * PAGE_SIZE + 2])
async def test_prompt_scores_are_whole_and_the_same_cold_and_warm(
    server: LiveServer, length: int
) -> None:
    """Case D02."""
    prompt = ids(length, 9)
    score: Json = {"echo": True, "logprobs": 1, "max_tokens": 0}
    async with server.client() as client:
        cold = (await complete(client, prompt, **score)).json()["choices"][0]
        await complete(client, prompt)
        warm, *_ = await asyncio.gather(
            complete(client, prompt, **score), *(complete(client, ids(9, i)) for i in range(3))
        )
    assert warm.json()["choices"][0] == cold
    scores = cold["logprobs"]
    assert len(scores["tokens"]) == len(scores["token_logprobs"]) == length
    assert scores["token_logprobs"][0] is None
    assert all(value < 0 for value in scores["token_logprobs"][1:])


async def test_evicted_prefixes_are_never_read_again(server: LiveServer) -> None:
    """Case D03: 12 prompts with shared heads, drawn at random, in a pool that holds a few."""
    dice = random.Random(4)
    prompts = [ids(PAGE_SIZE * dice.randint(0, 3), i % 3) + ids(20, 50 + i) for i in range(12)]
    async with server.client() as client:
        oracle = [texts(await complete(client, p, cache_salt=f"solo {p}")) for p in prompts]
        for _ in range(20):
            chosen = [dice.randrange(12) for _ in range(10)]
            answers = await asyncio.gather(*(complete(client, prompts[i]) for i in chosen))
            assert [texts(answer) for answer in answers] == [oracle[i] for i in chosen]
    assert server.metrics()["octavo_evictions_total"] > 0
    assert_idle(server)


async def test_the_pool_can_be_looked_at(server: LiveServer) -> None:
    async with server.client() as client:
        await complete(client, ids(3 * PAGE_SIZE, 123), cache_salt="look")
        pool = (await client.get("/debug/pages")).json()
    assert pool["page_size"] == PAGE_SIZE
    assert pool["num_pages"] == NUM_PAGES
    assert len(pool["pages"]) + pool["num_untouched"] == NUM_PAGES
    cached = [page for page in pool["pages"] if page["state"] == "cached"]
    assert cached
    assert all(page["fill"] == PAGE_SIZE and not page["owners"] for page in cached)
