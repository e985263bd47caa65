"""Reads a request body, within limits, before anything is made of it."""

import asyncio
from typing import TypeVar

from starlette.requests import Request
from starlette.types import Receive

from server.api.schemas.base import RequestModel
from server.api.strict_json import parse_object
from server.api.validation import validate
from server.api.workers import Workers
from server.errors import ClientDisconnected, PayloadTooLarge, UnsupportedMedia

T = TypeVar("T", bound=RequestModel)

INLINE_BYTES = 64 * 1024  # a larger body is parsed beside the event loop
# A refused body is read on for a while: closing on unread bytes resets the connection, and the
# client would never see the answer.
DISCARD_BYTES = 128 * 1024 * 1024
DISCARD_SECONDS = 10.0


async def read_request(request: Request, model: type[T], max_bytes: int, workers: Workers) -> T:
    """The body as `model`. Raises UnsupportedMedia, PayloadTooLarge, InvalidRequest,
    ClientDisconnected."""
    _check_media(request)
    body = await _read_bounded(request, max_bytes)

    def parse() -> T:
        return validate(model, parse_object(body))

    return parse() if len(body) <= INLINE_BYTES else await workers.run(parse)


def _check_media(request: Request) -> None:
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/json":
        raise UnsupportedMedia("The request must have Content-Type: application/json.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMedia("A request body with a Content-Encoding is not accepted.")


async def _read_bounded(request: Request, max_bytes: int) -> bytes:
    if _claimed_bytes(request) > max_bytes:
        if "expect" not in request.headers:  # who waits for a 100 Continue has sent nothing yet
            await _discard(request.receive)
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        part, more = await _receive(request.receive)
        size += len(part)
        if size > max_bytes:
            if more:
                await _discard(request.receive)
            raise _too_large(max_bytes)
        parts.append(part)
    return b"".join(parts)


def _claimed_bytes(request: Request) -> int:
    claim = request.headers.get("content-length", "")
    return int(claim) if claim.isdecimal() else 0


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The request body is larger than {max_bytes} bytes.")


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    """The next part of the body, and whether more follows; raises ClientDisconnected."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), message.get("more_body", False)


async def _discard(receive: Receive) -> None:
    left = DISCARD_BYTES
    more = True
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while more and left > 0:
                part, more = await _receive(receive)
                left -= len(part)
    except TimeoutError:
        return
