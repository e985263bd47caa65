"""Snapshots that a test lets be made, one by one."""

import asyncio


class Maker:
    """Numbered snapshots, each made once the test allows it."""

    def __init__(self) -> None:
        self.made = 0
        self.asked = 0
        self.error: Exception | None = None
        self._allowed = asyncio.Semaphore(0)

    def allow(self) -> None:
        self._allowed.release()

    async def make(self) -> bytes:
        self.asked += 1
        await self._allowed.acquire()
        if self.error is not None:
            raise self.error
        self.made += 1
        return b"%d" % self.made


async def turns(number: int = 5) -> None:
    """Lets every task that can go on do so."""
    for _ in range(number):
        await asyncio.sleep(0)
