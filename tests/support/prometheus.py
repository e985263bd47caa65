"""Debian's Prometheus with the configuration of deploy/prometheus, on a free port of 127.0.0.1."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.nginx import free_port
from tests.support.processes import piped, started
from tests.support.real_parts import program

FOLDER = Path(__file__).parent.parent.parent / "deploy/prometheus"
PACKAGE = "prometheus"
INTERVALS = "scrape_interval: 250ms\n  evaluation_interval: 250ms"
READY = "Server is ready to receive web requests"


@dataclass(frozen=True)
class Prometheus:
    url: str

    def query(self, expression: str) -> list[float]:
        """The values of an instant query, one for each series."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=30)
        body = answer.json()
        assert body["status"] == "success", (expression, body)
        return [float(series["value"][1]) for series in body["data"]["result"]]

    def rules(self) -> dict[str, str]:
        """The health and the state of every alert, by its name."""
        groups = httpx.get(f"{self.url}/api/v1/rules", timeout=30).json()["data"]["groups"]
        return {
            rule["name"]: f"{rule['health']} {rule['state']}"
            for group in groups
            for rule in group["rules"]
        }


@contextmanager
def prometheus(folder: Path, target: str, key: str) -> Iterator[Prometheus]:
    """Scrapes `target`, host:port, with `key`."""
    binary = program("prometheus", PACKAGE)
    config = write_configuration(folder, target, key)
    port = free_port()
    command = [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with started(command) as process:
        log = []
        for line in piped(process.stderr):
            log.append(line)
            if READY in line:
                break
        else:
            raise AssertionError(f"Prometheus did not start: {''.join(log)}")
        try:
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.communicate()


def write_configuration(folder: Path, target: str, key: str) -> Path:
    """The configuration as it is kept, but for target, interval and where the key lies."""
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    (folder / "key").write_text(key)
    for old, new in (
        ("/run/secrets/octavo_key", str(folder / "key")),
        ('"octavo:8000"', f'"{target}"'),
        ("scrape_interval: 15s\n  evaluation_interval: 15s", INTERVALS),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "rules.yml").write_text((FOLDER / "rules.yml").read_text(encoding="utf-8"))
    path = folder / "prometheus.yml"
    path.write_text(text)
    return path
