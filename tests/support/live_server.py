"""`octavo serve` as a process of its own, on a free port."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import piped, started

PATIENCE = 120.0  # seconds that anything may take on a slow machine before it counts as hanging
STARTED = re.compile(r"Octavo serves (\S+) on (\S+)")


class LiveServer:
    """A running server. `greeting` is the line that it prints once it serves, `log` what it has
    written to stderr so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._log: list[str] = []
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(piped(process.stderr),))
        self._reader.start()
        found = self._wait_until_started()
        self.greeting, self.model, self.url = found.string.rstrip(), found[1], found[2]

    @property
    def log(self) -> str:
        return "".join(self._log)

    def logged(self, text: str) -> str:
        """The log, once it holds this text: a line may come after what it tells of."""
        with self._grown:
            assert self._grown.wait_for(lambda: text in self.log, PATIENCE), self.log
        return self.log

    def client(self, **more: object) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(base_url=self.url, timeout=PATIENCE, limits=limits, **more)  # type: ignore[arg-type]

    def metrics(self) -> Mapping[str, float]:
        """Every sample that has no label but `state` or `outcome`, by "name" or "name label"."""
        text = httpx.get(f"{self.url}/metrics", timeout=PATIENCE).text
        return {
            " ".join([sample.name, *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "le" not in sample.labels
        }

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def kill(self) -> None:
        self.process.kill()
        self._reader.join(PATIENCE)

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            with self._grown:
                self._log.append(line)
                self._grown.notify_all()

    def _wait_until_started(self) -> re.Match[str]:
        assert self.process.stdout
        for line in self.process.stdout:
            if found := STARTED.match(line):
                return found
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        raise AssertionError(f"the server did not start:\n{self.log}")


@contextmanager
def live_server(model: Path, *flags: str, killed: bool = False) -> Iterator[LiveServer]:
    """A server that ends well: exit code 0 on SIGTERM, and no traceback in its log.

    With `killed` the test itself ends it by SIGKILL.
    """
    command = [sys.executable, "-m", "server", "serve", "--model", str(model), "--port", "0"]
    with started([*command, *flags]) as process:
        server = LiveServer(process)
        try:
            yield server
            code = server.stop()
        finally:
            server.kill()
    assert "Traceback" not in server.log, server.log
    assert code == (-signal.SIGKILL if killed else 0), server.log
