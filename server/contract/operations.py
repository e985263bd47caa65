"""Every operation of the API, with an example of each of its answers: what openapi.yaml tells."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine import errors as engine_errors
from server import errors
from server.api.error_response import UNEXPECTED_MESSAGE
from server.api.schemas.base import RequestModel, ResponseModel
from server.api.schemas.chat import ChatChunk, ChatCompletion, ChatRequest
from server.api.schemas.completion import Completion, CompletionChunk, CompletionRequest
from server.api.schemas.model import ModelCard, ModelList
from server.api.schemas.probe import Health, Liveness, Version
from server.api.schemas.snapshot import Snapshot
from server.api.schemas.tokens import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from server.contract import examples

Examples = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `answer` is the schema of its 200; None where that is text.

    With `redirects_to` the answer is a 307 instead.
    """

    method: str
    path: str
    name: str
    summary: str
    description: str
    answer: type[ResponseModel] | None
    answer_examples: Examples
    body: type[RequestModel] | None = None
    body_examples: Examples = field(default_factory=dict)
    chunk: type[ResponseModel] | None = None  # of its event stream, where it can stream
    stream_example: str = ""
    text_media: str | None = None  # of a text answer
    path_parameter: str | None = None
    path_example: str = "smollm2"
    redirects_to: str | None = None
    refusals: tuple[str, ...] = ()  # keys of REFUSALS
    needs_key: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """One kind of error answer; its examples are made from the errors themselves."""

    status: int
    description: str
    examples: Mapping[str, Exception]
    headers: Mapping[str, str] = field(default_factory=dict)  # name to description


REFUSALS: Mapping[str, Refusal] = {
    "BadRequest": Refusal(
        400,
        "The request is wrong in itself: its JSON, a field, or fields that do not fit together "
        "or the model. `param` names the field.",
        {
            "range": engine_errors.InvalidRequest(
                "'temperature' should be less than or equal to 2.", "temperature"
            ),
            "unsupported": errors.UnsupportedField(
                "'tools' is not supported by this server.", "tools"
            ),
            "unknown": errors.UnknownField("'foo' is not a field of this request.", "foo"),
            "too_long": engine_errors.PromptTooLong(
                "the prompt has 9000 tokens; prompt and answer together may have 8192, the model's context",
                "prompt",
            ),
        },
    ),
    "Unauthorized": Refusal(
        401,
        "Only where the server has API keys: none was sent, or a wrong one.",
        {"no_key": errors.Unauthorized("A valid API key is needed: Authorization: Bearer KEY.")},
        {"WWW-Authenticate": "The scheme: Bearer."},
    ),
    "NotFound": Refusal(
        404,
        "A model that is not served here.",
        {
            "model": engine_errors.ModelNotFound(
                "The model 'gpt-4o' is not served here; 'smollm2' is."
            )
        },
    ),
    "NoSuchPath": Refusal(
        404,
        "The server was started without this path.",
        {"path": errors.NoSuchRoute("There is no GET /debug/pages here.")},
    ),
    "BodyTooLarge": Refusal(
        413,
        "The body is over the limit; it was not read to its end.",
        {"size": errors.PayloadTooLarge("The request body is larger than 4194304 bytes.")},
    ),
    "UnsupportedMedia": Refusal(
        415,
        "The body is not application/json, or it is compressed.",
        {"media": errors.UnsupportedMedia("The request must have Content-Type: application/json.")},
    ),
    "Failed": Refusal(
        500,
        "A fault inside ended this request; others go on.",
        {
            "generation": errors.GenerationFailed("The model failed while generating this answer."),
            "internal": Exception(UNEXPECTED_MESSAGE),
        },
    ),
    "Unavailable": Refusal(
        503,
        "Not now: the queue is full, the model is loading, the server is shutting down or its "
        "engine has stopped.",
        {
            "overloaded": engine_errors.Overloaded("the queue is full: 256 requests wait already"),
            "dead": engine_errors.EngineDead("The engine has stopped and serves no more requests."),
        },
        {"Retry-After": "Seconds after which another try makes sense; absent where none does."},
    ),
    "TimedOut": Refusal(
        504,
        "The request took longer than the server allows.",
        {"timeout": errors.RequestTimedOut("The request took longer than 60 seconds.")},
    ),
}

_GUARDED = ("Unauthorized",)
_READS_BODY = ("BadRequest", *_GUARDED, "NotFound", "BodyTooLarge", "UnsupportedMedia")
_GENERATES = (*_READS_BODY, "Failed", "Unavailable", "TimedOut")

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "post",
        "/v1/completions",
        "createCompletion",
        "Complete a prompt",
        "Several prompts are computed as a batch; choice i * n + j is the j-th of prompt i. In a "
        "stream, chunks of several choices mix; each choice ends with one chunk of empty text "
        "that has its finish_reason. After the first byte an error is one data event and the "
        "stream closes; [DONE] follows a good end only. Special tokens spelled in a text prompt "
        "are plain text unless parse_special_tokens is true; a text prompt begins with the "
        "model's BOS, once, where the model has one. A field that is not listed is refused.",
        Completion,
        examples.COMPLETIONS,
        CompletionRequest,
        examples.COMPLETION_REQUESTS,
        chunk=CompletionChunk,
        stream_example=examples.COMPLETION_STREAM,
        refusals=_GENERATES,
    ),
    Operation(
        "post",
        "/v1/chat/completions",
        "createChatCompletion",
        "Answer a conversation",
        "As /v1/completions, for messages. Special tokens spelled in a message are plain text, "
        "always. What a model writes as its reasoning stays in the content as it is. Tools and "
        "structured output are refused by name.",
        ChatCompletion,
        examples.CHAT_COMPLETIONS,
        ChatRequest,
        examples.CHAT_REQUESTS,
        chunk=ChatChunk,
        stream_example=examples.CHAT_STREAM,
        refusals=_GENERATES,
    ),
    Operation(
        "post",
        "/tokenize",
        "tokenize",
        "Text or messages to token ids",
        "Exactly the ids that a completion of the same prompt, or a chat of the same messages, "
        "would be computed from.",
        TokenizeResponse,
        examples.TOKENS,
        TokenizeRequest,
        examples.TOKENIZE_REQUESTS,
        refusals=(*_READS_BODY, "Unavailable"),
    ),
    Operation(
        "post",
        "/detokenize",
        "detokenize",
        "Token ids to text",
        "Bytes that are no whole character show as U+FFFD.",
        DetokenizeResponse,
        examples.TEXTS,
        DetokenizeRequest,
        examples.DETOKENIZE_REQUESTS,
        refusals=(*_READS_BODY, "Unavailable"),
    ),
    Operation(
        "get",
        "/v1/models",
        "listModels",
        "The served models",
        "One server serves one model.",
        ModelList,
        examples.MODEL_LISTS,
        refusals=_GUARDED,
    ),
    Operation(
        "get",
        "/v1/models/{model_id}",
        "showModel",
        "One model",
        "An id with slashes may be sent as it is or percent-encoded.",
        ModelCard,
        examples.MODELS,
        path_parameter="model_id",
        refusals=(*_GUARDED, "NotFound"),
    ),
    Operation(
        "get",
        "/health",
        "health",
        "Can a request be served now?",
        "503 until the model is loaded, while the server shuts down, and after a fatal fault.",
        Health,
        {"ready": {"status": "ready"}},
        refusals=("Unavailable",),
        needs_key=False,
    ),
    Operation(
        "get",
        "/livez",
        "liveness",
        "Is the process alive?",
        "200 as long as the process answers at all.",
        Liveness,
        {"alive": {"status": "alive"}},
        needs_key=False,
    ),
    Operation(
        "get",
        "/version",
        "showVersion",
        "The server's version",
        "As installed.",
        Version,
        {"version": {"version": "0.1.0"}},
        refusals=_GUARDED,
    ),
    Operation(
        "get",
        "/metrics",
        "metrics",
        "Prometheus metrics",
        "In Prometheus' text format. Asks for an API key as the API does.",
        None,
        {"excerpt": examples.METRICS},
        text_media="text/plain",
        refusals=_GUARDED,
    ),
    Operation(
        "get",
        "/debug/pages",
        "debugPages",
        "The page pool and the page tables",
        "Only where the server was started with --debug-endpoints. The shape may change.",
        None,
        {"pages": examples.PAGES},
        text_media="application/json",
        refusals=(*_GUARDED, "NoSuchPath"),
    ),
    Operation(
        "get",
        "/",
        "findDashboard",
        "The way to the live view",
        "For whoever opens the server's address in a browser. Not where the server was started with "
        "--no-dashboard.",
        None,
        {},
        redirects_to="/dashboard",
        refusals=("NoSuchPath",),
        needs_key=False,
    ),
    Operation(
        "get",
        "/dashboard",
        "showDashboard",
        "The live view",
        "A page for browsers that shows the snapshots below. It holds no data and asks for the key "
        "itself. Not where the server was started with --no-dashboard.",
        None,
        {"excerpt": "<!doctype html>\n"},
        text_media="text/html",
        refusals=("NoSuchPath",),
        needs_key=False,
    ),
    Operation(
        "get",
        "/dashboard/{file}",
        "showDashboardFile",
        "A file of the live view",
        "Its style, its scripts and its icon.",
        None,
        {"excerpt": "export function"},
        text_media="text/javascript",
        path_parameter="file",
        path_example="main.js",
        refusals=("NoSuchPath",),
        needs_key=False,
    ),
    Operation(
        "get",
        "/dashboard/snapshots",
        "watchSnapshots",
        "The server from moment to moment",
        "A stream without an end: at most two snapshots a second of pages, requests and rates, never "
        "of a text. A reader that is slow misses some. [DONE] follows when the server ends. Not "
        "where the server was started with --no-dashboard.",
        None,
        {},
        chunk=Snapshot,
        stream_example=examples.SNAPSHOT_STREAM,
        refusals=(*_GUARDED, "NoSuchPath", "Unavailable"),
    ),
    Operation(
        "get",
        "/openapi.json",
        "openapi",
        "This document",
        "As JSON.",
        None,
        {"excerpt": {"openapi": "3.1.0"}},
        text_media="application/json",
        refusals=_GUARDED,
    ),
)
