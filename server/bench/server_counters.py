"""What an Octavo server says of itself at /metrics; nothing of any other server."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from server.bench.target import Target

COPIED_BYTES = "octavo_kv_copied_bytes_total"
DRAFTED_TOKENS = "octavo_drafted_tokens_total"
ACCEPTED_TOKENS = "octavo_accepted_tokens_total"
RESIDENT_BYTES = "process_resident_memory_bytes"


@dataclass(frozen=True, slots=True)
class ServerCounters:
    """Octavo's counters, by name and labels; empty for another server."""

    counts: Mapping[str, float]
    resident_bytes: float | None = None

    def since(self, before: "ServerCounters") -> "ServerCounters":
        """What was added; memory as it is now."""
        added = {name: count - before.counts.get(name, 0) for name, count in self.counts.items()}
        return ServerCounters(added, self.resident_bytes)

    def total(self, name: str) -> float | None:
        """The sum over all labels; None where there is no such counter."""
        found = [count for key, count in self.counts.items() if key.partition("{")[0] == name]
        return sum(found) if found else None


def read_counters(text: str) -> ServerCounters:
    """From the exposition format. Raises ValueError where the text is in another one."""
    counts: dict[str, float] = {}
    resident = None
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not isfinite(sample.value):  # nothing that could be added, or written as JSON
                continue
            if family.type == "counter" and sample.name.startswith("octavo_"):
                counts[_key(sample.name, sample.labels)] = sample.value
            elif sample.name == RESIDENT_BYTES:
                resident = sample.value
    return ServerCounters(counts, resident if counts else None)


async def fetch_counters(client: httpx2.AsyncClient, target: Target) -> ServerCounters:
    """Empty too where the server shows no metrics."""
    try:
        answer = await client.get(f"{target.url}/metrics", headers=target.headers, timeout=30)
        answer.raise_for_status()
        answer.encoding = "utf-8"  # a server may name one that decodes no text
        return read_counters(answer.text)
    except (httpx2.HTTPError, ValueError):
        return ServerCounters({})


def _key(name: str, labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{inner}}}" if inner else name
