"""A client that speaks HTTP/1.1 by hand: it can be slow, silent, rude, or gone."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

PATIENCE = 20.0  # seconds; only a hang takes so long


@dataclass(frozen=True)
class Head:
    """A response's status and headers."""

    status: int
    headers: Mapping[str, str]


class RawConnection:
    """One connection. `leave` closes it at once, by reset where asked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def post(self, path: str, body: object, **headers: str) -> None:
        await self.send(request_bytes(path, json.dumps(body).encode(), **headers))

    async def head(self) -> Head:
        async with asyncio.timeout(PATIENCE):
            raw = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode().strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return Head(int(first.split()[1]), {name.lower(): value for name, value in pairs})

    async def until(self, mark: bytes) -> bytes:
        """What comes up to and with `mark`; all of it if the connection ends before."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.readuntil(mark)
            except asyncio.IncompleteReadError as end:
                return end.partial

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read()

    def leave(self, *, reset: bool = False) -> None:
        if reset:
            self._writer.transport.abort()
        else:
            self._writer.close()


def request_bytes(path: str, body: bytes, **headers: str) -> bytes:
    lines = {
        "Host": "octavo",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@asynccontextmanager
async def connection(
    address: tuple[str, int], *, receive_buffer: int | None = None
) -> AsyncIterator[RawConnection]:
    sock = socket.socket()
    sock.setblocking(False)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await asyncio.get_running_loop().sock_connect(sock, address)
    limit = 2**16 if receive_buffer is None else 256  # little is read ahead of its use
    reader, writer = await asyncio.open_connection(sock=sock, limit=limit)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
