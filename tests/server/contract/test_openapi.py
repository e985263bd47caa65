"""openapi.yaml is what the app is."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from server.api.app import ROUTERS
from server.api.dashboard.routes import router as dashboard_router
from server.api.probes import debug_router
from server.api.schemas.error import ErrorEnvelope
from server.contract.openapi import openapi_document
from server.contract.operations import OPERATIONS, REFUSALS, Operation
from server.contract.yaml_text import to_yaml
from tests.support.http_app import read_events

FILE = Path(__file__).parents[3] / "openapi.yaml"
named = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def test_the_file_is_what_the_app_generates() -> None:
    assert FILE.read_text() == to_yaml(openapi_document()), "run: make openapi"


async def test_the_app_answers_the_same_document(client: httpx.AsyncClient) -> None:
    assert (await client.get("/openapi.json")).json() == yaml.safe_load(FILE.read_text())


def test_every_route_is_documented_and_no_other() -> None:
    routes = {
        (method.lower(), route.path.replace(":path", ""))
        for router in (*ROUTERS, dashboard_router, debug_router)
        for route in router.routes
        for method in route.methods
    }
    assert routes == {(operation.method, operation.path) for operation in OPERATIONS}


def test_every_answer_has_an_example() -> None:
    document = openapi_document()
    for path, method, operation in _operations(document):
        for status, answer in operation["responses"].items():
            told = _resolved(document, answer)
            for media, content in told["content"].items():
                assert content["examples"], f"{method} {path} {status} {media}"


@named
def test_examples_keep_to_their_schemas(operation: Operation) -> None:
    for example in operation.body_examples.values():
        operation.body.model_validate(example)
    if operation.answer is not None:
        for example in operation.answer_examples.values():
            TypeAdapter(operation.answer).validate_json(json.dumps(example))
    if operation.chunk is not None:
        events = read_events(operation.stream_example)
        assert events.done
        for chunk in events.chunks:
            TypeAdapter(operation.chunk).validate_json(json.dumps(chunk))


def test_examples_of_refusals_are_envelopes_of_their_status() -> None:
    document = openapi_document()
    for name, refusal in REFUSALS.items():
        content = document["components"]["responses"][name]["content"]["application/json"]
        assert len(content["examples"]) == len(refusal.examples)
        for example in content["examples"].values():
            ErrorEnvelope.model_validate(example["value"])


def test_request_schemas_are_closed() -> None:
    schemas = openapi_document()["components"]["schemas"]
    for operation in OPERATIONS:
        if operation.body is not None:
            assert schemas[operation.body.__name__]["additionalProperties"] is False


def test_no_description_speaks_of_python() -> None:
    text = FILE.read_text()
    for word in ("pydantic", "BaseModel", "fastapi", "dataclass"):
        assert word not in text


texts = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=40)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    plain.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=12,
)


@settings(max_examples=25)
@given(value=st.dictionaries(texts, values))
def test_our_yaml_says_what_json_says(value: dict[str, object]) -> None:
    assert yaml.safe_load(to_yaml(value)) == json.loads(json.dumps(value))


def _operations(document: dict) -> Iterator[tuple[str, str, dict]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _resolved(document: dict, answer: dict) -> dict:
    if "$ref" in answer:
        return document["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    return answer
