"""Watching for the client's leaving while its answer is made."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.types import Receive

from server.errors import ClientDisconnected

T = TypeVar("T")


async def wait_for_disconnect(receive: Receive) -> None:
    """Returns once the client has left. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(receive: Receive, work: Coroutine[None, None, T]) -> T:
    """The result of `work`; where the client leaves first, cancels it and raises
    ClientDisconnected."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnected
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
