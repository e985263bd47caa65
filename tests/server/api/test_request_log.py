"""One line for each request, whatever becomes of it."""

import json
import logging

import httpx
import pytest

from server.api.app import Surroundings
from server.config import LogFormat, ServerConfig
from server.logs import formatter_for
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, App, completion, in_memory, make_app

LOGGER = "server.requests"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    return caplog


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == LOGGER]


async def test_a_line_tells_of_tokens_times_and_outcome(
    tokenizer: Tokenizer, lines: pytest.LogCaptureFixture
) -> None:
    ticks = iter(range(100))
    app = make_app(tokenizer, surroundings=Surroundings(monotonic_clock=lambda: next(ticks)))
    async with in_memory(app) as client:
        await client.post(
            "/v1/completions", json=completion(max_tokens=2), headers={"x-request-id": "abc-1"}
        )
    (record,) = records(lines)
    fields = dict(part.split("=") for part in record.getMessage().split())
    assert fields["request_id"] == "abc-1"
    assert fields["path"] == "/v1/completions"
    assert fields["status"] == "200"
    assert fields["outcome"] == "completed"
    assert (fields["prompt_tokens"], fields["completion_tokens"]) == ("5", "2")
    assert (fields["first_token_seconds"], fields["seconds"]) == ("1", "3")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (completion(), "completed"),
        (completion(n=0), "refused"),
        (completion("fails"), "failed"),
        (completion("fails", stream=True), "failed"),
    ],
)
async def test_the_outcome_is_what_became_of_the_request(
    client: httpx.AsyncClient,
    app: App,
    lines: pytest.LogCaptureFixture,
    body: dict[str, object],
    outcome: str,
) -> None:
    app.engine.fail("fails")
    await client.post("/v1/completions", json=body)
    (record,) = records(lines)
    assert f"outcome={outcome}" in record.getMessage()
    counted = app.metrics.registry.get_sample_value("octavo_requests_total", {"outcome": outcome})
    assert counted == 1


async def test_probes_are_logged_for_debugging_only(
    client: httpx.AsyncClient, lines: pytest.LogCaptureFixture
) -> None:
    for path in ("/health", "/livez", "/metrics", "/v1/models"):
        await client.get(path)
    assert [record.levelname for record in records(lines)] == ["DEBUG", "DEBUG", "DEBUG", "INFO"]


async def test_no_text_of_a_prompt_is_logged(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.post("/v1/completions", json=completion("my secret"))
    await client.post("/v1/completions", json=completion("my secret", n=0))
    assert "secret" not in caplog.text


async def test_prompts_are_logged_where_asked_for(
    tokenizer: Tokenizer, lines: pytest.LogCaptureFixture
) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, log_prompts=True))
    async with in_memory(app) as client:
        await client.post("/v1/completions", json=completion("my secret\nline"))
    (record,) = records(lines)
    assert r"prompt='my secret\nline'" in record.getMessage()


async def test_a_path_cannot_forge_a_line(
    client: httpx.AsyncClient, lines: pytest.LogCaptureFixture
) -> None:
    await client.get("/a%0Arequest_id=forged%20outcome=completed" + "x" * 5000)
    (record,) = records(lines)
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 500


async def test_json_lines_have_the_fields_as_keys(
    client: httpx.AsyncClient, lines: pytest.LogCaptureFixture
) -> None:
    await client.post("/v1/completions", json=completion(max_tokens=2))
    (record,) = records(lines)
    told = json.loads(formatter_for(LogFormat.JSON).format(record))
    assert told["message"] == "request"
    assert told["level"] == "info"
    assert told["completion_tokens"] == 2
    assert told["outcome"] == "completed"
    assert told["time"].endswith("Z")


def test_json_lines_carry_any_message_and_its_error() -> None:
    error = ValueError("what went wrong")
    record = logging.LogRecord(
        "x", logging.ERROR, "", 0, "two\nlines", None, (type(error), error, None)
    )
    line = formatter_for(LogFormat.JSON).format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == "two\nlines"
    assert "what went wrong" in json.loads(line)["error"]


@pytest.mark.parametrize("given", ["abc", "A-b_c.9", "x" * 128])
async def test_a_plain_request_id_is_echoed(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/livez", headers={"x-request-id": given})
    assert response.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a;b", "<script>", "ü"])
async def test_any_other_request_id_is_replaced(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/livez", headers={b"x-request-id": given.encode()})
    assert response.headers["x-request-id"].startswith("req-")


async def test_a_clients_request_id_is_never_the_engines(
    client: httpx.AsyncClient, app: App
) -> None:
    """Case C15."""
    for _ in range(2):
        await client.post("/v1/completions", json=completion(), headers={"x-request-id": "same"})
    assert len(app.engine.calls) == 2
    assert "same" not in "".join(app.engine.calls)


async def test_errors_carry_a_request_id_too(client: httpx.AsyncClient) -> None:
    for path in ("/nope", "/v1/completions"):
        assert (await client.get(path)).headers["x-request-id"]
