"""Snapshots from a server's stream, one after the other."""

from collections.abc import Generator, Iterator

import httpx2
from pydantic import ValidationError

from server.api.schemas.error import ErrorEnvelope
from server.api.schemas.snapshot import Snapshot
from server.top.errors import WatchError
from server.top.text_width import harmless

PATH = "/dashboard/snapshots"
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 30.0  # snapshots come twice a second
EVENT_STREAM = "text/event-stream"


def read_snapshots(url: str, key: str | None) -> Generator[Snapshot, None, None]:
    """Until the server ends. `url` is that of the server; http:// may be left out, and /v1 may
    stand at its end. Raises WatchError."""
    base = _base(url)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    timeout = httpx2.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
    try:
        with httpx2.stream("GET", base + PATH, headers=headers, timeout=timeout) as answer:
            _check(answer, base)
            yield from _snapshots(answer, base)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, UnicodeError) as error:
        raise WatchError(f"{url!r} is no URL of a server") from error
    except httpx2.HTTPError as error:
        raise WatchError(f"{base} cannot be reached: {error or type(error).__name__}") from error


def _base(url: str) -> str:
    if url.startswith("unix:"):  # as a server prints it that listens there
        raise WatchError(f"{url} is a Unix socket: only a server on a TCP port can be watched")
    bare = url.rstrip("/").removesuffix("/v1").rstrip("/")
    return bare if "://" in bare else f"http://{bare}"


def _check(answer: httpx2.Response, base: str) -> None:
    if answer.status_code == 200 and answer.headers.get("content-type", "").startswith(
        EVENT_STREAM
    ):
        return
    answer.read()
    envelope = _envelope(answer.text)
    if envelope is None:
        raise WatchError(f"{base} is no Octavo, or a proxy hides it: it has no {PATH}")
    match answer.status_code:
        case 401:
            raise WatchError(f"{base} asks for a valid key: --api-key KEY")
        case 404:
            raise WatchError(
                f"{base} cannot be watched: it was started with --no-dashboard, or it is a proxy "
                "such as nginx; ask the server behind that"
            )
        case _:
            raise WatchError(f"{base}: {harmless(envelope.error.message)}")


def _snapshots(answer: httpx2.Response, base: str) -> Iterator[Snapshot]:
    for line in answer.iter_lines():
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            return
        yield _snapshot(data, base)


def _snapshot(data: str, base: str) -> Snapshot:
    try:
        return Snapshot.model_validate_json(data)
    except ValidationError as error:
        if envelope := _envelope(data):
            raise WatchError(f"{base}: {harmless(envelope.error.message)}") from error
        raise WatchError(f"{base} is another version: its snapshots are not understood") from error


def _envelope(text: str) -> ErrorEnvelope | None:
    try:
        return ErrorEnvelope.model_validate_json(text)
    except ValueError:
        return None
