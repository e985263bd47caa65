"""What an Octavo tells about itself."""

import httpx2

from server.bench.client import open_client
from server.bench.server_counters import ServerCounters, fetch_counters, read_counters
from server.bench.target import Target

BEFORE = """# HELP octavo_kv_copied_bytes_total Bytes.
# TYPE octavo_kv_copied_bytes_total counter
octavo_kv_copied_bytes_total{part="growth"} 100.0
octavo_kv_copied_bytes_total{part="gather"} 20.0
# TYPE octavo_page_capacity gauge
octavo_page_capacity 7.0
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 5e+08
"""
AFTER = BEFORE.replace("100.0", "130.0").replace("20.0", "25.0").replace("5e+08", "6e+08")
COPIED = "octavo_kv_copied_bytes_total"


def test_what_a_load_added_is_the_difference_and_memory_is_as_it_is_now() -> None:
    added = read_counters(AFTER).since(read_counters(BEFORE))
    assert added.counts == {f'{COPIED}{{part="growth"}}': 30, f'{COPIED}{{part="gather"}}': 5}
    assert added.total(COPIED) == 35
    assert added.total("octavo_page_copies_total") is None
    assert added.resident_bytes == 6e8


def test_another_server_has_no_counters() -> None:
    text = "# TYPE llm_tokens_total counter\nllm_tokens_total 5\nprocess_resident_memory_bytes 5\n"
    assert read_counters(text) == ServerCounters({})


def test_what_is_no_number_is_no_counter() -> None:
    for value in ("NaN", "+Inf"):
        counters = read_counters(BEFORE.replace("100.0", value).replace("5e+08", value))
        assert (counters.total(COPIED), counters.resident_bytes) == (20, None)


async def fetched(status: int, text: str, encoding: str = "utf-8") -> ServerCounters:
    header = {"content-type": f"text/plain; charset={encoding}"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, headers=header, text=text))
    async with open_client(transport) as client:
        return await fetch_counters(client, Target("http://server", "m"))


async def test_a_server_that_shows_no_metrics_has_no_counters() -> None:
    assert await fetched(404, "no such page") == ServerCounters({})
    assert await fetched(200, "<h1>hello {</h1>") == ServerCounters({})
    assert (await fetched(200, BEFORE)).total(COPIED) == 120
    assert (await fetched(200, BEFORE, "base64")).total(COPIED) == 120
