"""Many clients, many of them impatient: nothing is lost, nothing hangs, nothing is left behind."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.support.live_server import LiveServer

SERVER_FLAGS = (
    "--kv-cache-memory=8MiB",
    "--max-num-seqs=8",
    "--max-num-batched-tokens=64",
    "--max-queue=24",
)

Json = dict[str, object]


def body(dice: random.Random, **fields: object) -> Json:
    prompt = [dice.randrange(256) for _ in range(dice.choice((3, 20, 150)))]
    values: Json = {"model": "tiny", "prompt": prompt, "max_tokens": dice.choice((1, 8, 40))}
    return values | {"temperature": 0, "ignore_eos": True} | fields


async def settle(server: LiveServer) -> None:
    """Wait until nothing runs: the gauges are asked again until they say so."""
    async with asyncio.timeout(60), server.client() as client:
        while True:
            text = (await client.get("/metrics")).text
            if "octavo_requests_running 0.0" in text and "octavo_requests_waiting 0.0" in text:
                return


def assert_nothing_is_held(server: LiveServer) -> None:
    found = server.metrics()
    states = [found[f"octavo_pages {state}"] for state in ("free", "used", "cached")]
    assert found["octavo_pages used"] == 0
    assert sum(states) == found["octavo_page_budget"]


def resident_kib(server: LiveServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


async def stream(client: httpx.AsyncClient, fields: Json, leave_after: int | None) -> str:
    """Read a stream to its end, or leave it after some lines; says how it went."""
    async with client.stream("POST", "/v1/completions", json=fields | {"stream": True}) as answer:
        if answer.status_code != 200:
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            return "refused"
        lines = 0
        last = ""
        async for line in answer.aiter_lines():
            lines += line.startswith("data:")
            last = line or last
            if leave_after is not None and lines > leave_after:
                return "left"
        assert last == "data: [DONE]"
        return "done"


async def test_sixty_four_clients_lose_nothing(server: LiveServer) -> None:
    dice = random.Random(1)
    fields = [body(dice) for _ in range(64 * 3)]
    leaving = [dice.randint(0, 6) if i % 3 == 0 else None for i in range(len(fields))]

    async def one_client(number: int, client: httpx.AsyncClient) -> list[str]:
        mine = range(number, len(fields), 64)
        return [await stream(client, fields[i], leaving[i]) for i in mine]

    async with asyncio.timeout(200), server.client() as client:
        outcomes = await asyncio.gather(*(one_client(i, client) for i in range(64)))
    counts = Counter(outcome for client_outcomes in outcomes for outcome in client_outcomes)
    assert counts["done"] > 0
    assert counts["refused"] > 0  # 64 clients, 8 running, 24 queued
    assert counts["done"] + counts["refused"] + counts["left"] == len(fields)
    await settle(server)
    assert_nothing_is_held(server)


@pytest.mark.parametrize("round_number", range(5))
async def test_a_hundred_cancelled_streams_leave_nothing(
    server: LiveServer, round_number: int
) -> None:
    """Case C10: some leave before the first chunk, some late, some with n = 2."""
    dice = random.Random(round_number)

    async def leave_early(client: httpx.AsyncClient) -> str:
        fields = body(dice, max_tokens=200, n=dice.choice((1, 1, 2)))
        return await stream(client, fields, dice.randint(0, 30))

    slots = asyncio.Semaphore(16)

    async def take_turns(client: httpx.AsyncClient) -> str:
        async with slots:
            return await leave_early(client)

    async with asyncio.timeout(200), server.client() as client:
        outcomes = await asyncio.gather(*(take_turns(client) for _ in range(100)))
    assert set(outcomes) == {"left"}
    await settle(server)
    assert_nothing_is_held(server)


async def test_unstreamed_requests_of_vanished_clients_are_ended(server: LiveServer) -> None:
    """Case C08: 20 long requests whose clients give up."""
    dice = random.Random(7)
    before = server.metrics()["octavo_requests_total cancelled"]
    async with server.client() as client:
        for _ in range(20):
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/completions", json=body(dice, max_tokens=3000), timeout=0.05)
    await settle(server)
    assert server.metrics()["octavo_requests_total cancelled"] == before + 20
    assert_nothing_is_held(server)


async def test_memory_levels_off_over_prompts_and_a_growing_chat(server: LiveServer) -> None:
    """Case D12: 300 different prompts of 20 pages, then one chat of 30 turns."""
    dice = random.Random(12)
    sizes = []
    async with server.client() as client:
        for i in range(300):
            prompt = [dice.randrange(256) for _ in range(320)]
            fields = body(dice, prompt=prompt, max_tokens=2)
            assert (await client.post("/v1/completions", json=fields)).status_code == 200
            if i % 50 == 49:
                sizes.append(resident_kib(server))
        metrics = server.metrics()
        assert metrics["octavo_page_capacity"] == metrics["octavo_page_budget"]
        await grow_a_chat(client, turns=30)
    assert sizes[-1] - sizes[1] < 20 * 1024  # the first hundred requests fill the pool
    assert resident_kib(server) - sizes[-1] < 20 * 1024
    after = server.metrics()
    assert after["octavo_page_capacity"] == metrics["octavo_page_capacity"]
    assert_nothing_is_held(server)


async def grow_a_chat(client: httpx.AsyncClient, turns: int) -> None:
    """Each turn takes all but its newest part from the prefix cache."""
    messages: list[Json] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Turn {turn}: tell me more."})
        answer = await client.post(
            "/v1/chat/completions",
            json={"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0},
        )
        assert answer.status_code == 200, answer.text
        content = answer.json()["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": content})
        usage = answer.json()["usage"]
        if turn:
            fresh = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
            assert fresh < 120
