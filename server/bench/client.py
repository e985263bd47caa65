"""Streamed requests to any OpenAI-style server, on one event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import httpx2

from server.bench.chunk import Chunk, Usage, error_text, read_chunk
from server.bench.errors import BenchError, RequestFailed
from server.bench.load import PlannedRequest
from server.bench.measured import Measured
from server.bench.target import Target, request_body

Clock = Callable[[], float]

DONE = "[DONE]"
TEXT = "utf-8"  # of event streams and JSON
CONNECT_SECONDS = 10.0
UNAUTHORIZED = 401
ASKS_FOR_KEY = "asks for a valid key, give it with --api-key"


def open_client(transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """Any number of connections, past every proxy; `Prober` says how long a request may take."""
    return httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=None),
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        trust_env=False,
        transport=transport,
    )


async def find_model(
    client: httpx2.AsyncClient, url: str, api_key: str | None, model: str | None = None
) -> str:
    """`model`, or else the first that the server lists. Raises BenchError where no server answers."""
    answer = await _models(client, Target(url, "", api_key))
    if model is not None:
        return model
    if answer.status_code == UNAUTHORIZED:
        raise BenchError(f"{url} {ASKS_FOR_KEY}")
    if not answer.is_success:
        raise BenchError(f"{url}/v1/models answers {answer.status_code}")
    try:
        return _first_id(answer)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BenchError(f"{url}/v1/models lists no model; name one with --model") from error


def _first_id(answer: httpx2.Response) -> str:
    """Raises ValueError where the name cannot be sent, LookupError or TypeError where there is none."""
    name = answer.json()["data"][0]["id"]
    if not isinstance(name, str) or not name:
        raise ValueError("no name")
    name.encode()
    return name


async def _models(client: httpx2.AsyncClient, target: Target) -> httpx2.Response:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await client.get(f"{target.url}/v1/models", headers=target.headers)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise BenchError(f"{target.url} cannot be reached: {reason}") from error


@dataclass(slots=True)
class _Answer:
    """What has come of one answer so far."""

    arrivals: list[float] = field(default_factory=list)
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Prober:
    """Sends requests and times them; none may take longer than `timeout` seconds."""

    client: httpx2.AsyncClient
    clock: Clock
    timeout: float

    async def measure(self, target: Target, request: PlannedRequest) -> Measured:
        """A failure is part of what comes back."""
        answer, failure = _Answer(), None
        started = self.clock()
        try:
            async with (
                asyncio.timeout(self.timeout),
                aclosing(self.stream(target, request)) as chunks,
            ):
                async for chunk in chunks:
                    self._take(answer, chunk)
        except TimeoutError:
            failure = RequestFailed("timeout", f"no whole answer in {self.timeout:g} seconds")
        except RequestFailed as error:
            failure = error
        if failure is None and not answer.arrivals:
            failure = RequestFailed("no text", "the stream ended without any")
        return Measured(started, self.clock(), tuple(answer.arrivals), answer.usage, failure)

    async def stream(self, target: Target, request: PlannedRequest) -> AsyncGenerator[Chunk]:
        """The chunks of one answer as they come. Raises RequestFailed."""
        body, headers = request_body(target, request), target.headers
        try:
            async with self.client.stream(
                "POST", target.endpoint, json=body, headers=headers
            ) as response:
                response.encoding = TEXT  # a server may name one that decodes no text
                await _check_status(response)
                async with aclosing(_chunks(response)) as chunks:
                    async for chunk in chunks:
                        yield chunk
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise RequestFailed("connect", str(error) or type(error).__name__) from error
        except httpx2.SSEError as error:
            raise RequestFailed("no stream", str(error)) from error
        except httpx2.HTTPError as error:
            raise RequestFailed("cut", str(error) or type(error).__name__) from error

    def _take(self, answer: _Answer, chunk: Chunk) -> None:
        # The last chunk may say no more than that the answer has ended: no token, unless it is the
        # only sign of one, as where a token has no text.
        if chunk.text or (chunk.is_answer and not answer.arrivals):
            answer.arrivals.append(self.clock())
        answer.usage = chunk.usage or answer.usage


async def _check_status(response: httpx2.Response) -> None:
    if response.is_success:
        return
    await response.aread()
    try:
        detail = error_text(response.json())
    except (ValueError, RecursionError):
        detail = response.text
    if response.status_code == UNAUTHORIZED:
        detail = f"{ASKS_FOR_KEY}: {detail}"
    raise RequestFailed(f"http {response.status_code}", detail)


async def _chunks(response: httpx2.Response) -> AsyncGenerator[Chunk]:
    async for event in httpx2.EventSource(response):
        if event.data.strip() == DONE:
            return
        if event.data:
            yield read_chunk(event.data)
    raise RequestFailed("cut", f"the stream ended before {DONE}")
