"""The OpenAPI document, built from the table of operations and the schemas.

`python -m server.contract.openapi openapi.yaml` writes it; GET /openapi.json answers it.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fastapi import APIRouter
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse, Response

from server.api.error_response import envelope_for
from server.api.schemas.error import ErrorEnvelope
from server.contract.operations import OPERATIONS, REFUSALS, Operation, Refusal
from server.contract.yaml_text import to_yaml

Json = dict[str, object]

router = APIRouter()

API_VERSION = "1"
REF = "#/components/schemas/{model}"
REQUEST_ID: Mapping[str, object] = {
    "X-Request-Id": {
        "description": "The client's own X-Request-Id where it is short and plain, else a new one.",
        "schema": {"type": "string"},
    }
}


@router.get("/openapi.json")
async def show_openapi() -> Response:
    return JSONResponse(openapi_document())


def openapi_document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Octavo",
            "version": API_VERSION,
            "summary": "Continuous-batching inference for MLX, with OpenAI's API",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "responses": {name: _refusal(refusal) for name, refusal in REFUSALS.items()},
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Asked for only where the server was started with API keys.",
                }
            },
        },
    }


def _paths() -> Json:
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return dict(paths)


def _operation(operation: Operation) -> Json:
    told: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "security": [{"apiKey": []}] if operation.needs_key else [],
    }
    if operation.path_parameter is not None:
        told["parameters"] = [_path_parameter(operation.path_parameter, operation.path_example)]
    if operation.body is not None:
        content = _content(operation.body, operation.body_examples)
        told["requestBody"] = {"required": True, "content": {"application/json": content}}
    told["responses"] = {**_good_answer(operation), **_refusals(operation)}
    return told


def _path_parameter(name: str, example: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "example": example,
    }


def _good_answer(operation: Operation) -> Json:
    if operation.redirects_to is None:
        return {"200": _answer(operation)}
    location = {
        "description": "Where to look instead.",
        "schema": {"type": "string"},
        "example": operation.redirects_to,
    }
    headers = {**REQUEST_ID, "Location": location}
    return {"307": {"description": "It is elsewhere.", "headers": headers, "content": {}}}


def _answer(operation: Operation) -> Json:
    content: Json = {}
    if operation.answer is not None:
        content["application/json"] = _content(operation.answer, operation.answer_examples)
    if operation.text_media is not None:
        content[operation.text_media] = {"examples": _examples(operation.answer_examples)}
    if operation.chunk is not None:
        content["text/event-stream"] = {
            "schema": _event_schema(operation.chunk),
            "examples": _examples(_example_events(operation.stream_example)),
        }
    return {"description": "The answer.", "headers": REQUEST_ID, "content": content}


def _event_schema(chunk: type[BaseModel]) -> Json:
    told = [{"$ref": REF.format(model=model.__name__)} for model in (chunk, ErrorEnvelope)]
    return {
        "description": "One event. Between events there may be comment lines, which keep the "
        "connection open. The last event of a good stream is [DONE]; of another, an error.",
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {
                "anyOf": [
                    {"const": "[DONE]"},
                    {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": {"anyOf": told},
                    },
                ]
            }
        },
    }


def _example_events(stream: str) -> Json:
    lines = [line for line in stream.split("\n") if line]
    return {
        f"event_{place}": {"data": line.removeprefix("data: ")}
        for place, line in enumerate(lines, start=1)
    }


def _refusals(operation: Operation) -> Json:
    return {
        str(REFUSALS[name].status): {"$ref": f"#/components/responses/{name}"}
        for name in operation.refusals
    }


def _refusal(refusal: Refusal) -> Json:
    examples = {
        name: envelope_for(error).model_dump(mode="json")
        for name, error in refusal.examples.items()
    }
    own = {
        name: {"description": text, "schema": {"type": "string"}}
        for name, text in refusal.headers.items()
    }
    return {
        "description": refusal.description,
        "headers": {**REQUEST_ID, **own},
        "content": {"application/json": _content(ErrorEnvelope, examples)},
    }


def _content(model: type[BaseModel], examples: Mapping[str, object]) -> Json:
    return {
        "schema": {"$ref": REF.format(model=model.__name__)},
        "examples": _examples(examples),
    }


def _examples(examples: Mapping[str, object]) -> Json:
    return {name: {"value": value} for name, value in examples.items()}


def _schemas() -> Json:
    _, definitions = models_json_schema(
        [(model, "validation") for model in _models()], ref_template=REF
    )
    schemas: Json = definitions["$defs"]
    return dict(sorted(schemas.items()))


def _models() -> Sequence[type[BaseModel]]:
    of_operations = [
        model
        for operation in OPERATIONS
        for model in (operation.body, operation.answer, operation.chunk)
        if model is not None
    ]
    return [*of_operations, ErrorEnvelope]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(to_yaml(openapi_document()))
