"""Generated requests, right and wrong, find the app to be what openapi.yaml says."""

from collections.abc import Callable, Iterator, Mapping

import pytest
import schemathesis
from schemathesis import HookContext
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import from_schema
from schemathesis.engine.events import FatalError, NonFatalError, ScenarioFinished
from schemathesis.engine.recorder import CheckNode

from server.config import ServerConfig
from server.contract.openapi import openapi_document
from server.contract.operations import OPERATIONS, Operation
from server.text.tokenizer import Tokenizer
from tests.support.http_app import MODEL, make_app
from tests.support.threaded_app import in_thread

KEY = "a-key-for-tests"
EXAMPLES = 15  # of each operation
ENDLESS = "watchSnapshots"  # a stream that a client would read for ever


REFUSALS = ["400", "404", "413", "415"]
VOCABULARY = 300  # every id below it is a token
CONTEXT = 40  # characters of a text that surely fits

Json = dict[str, object]


@pytest.fixture(scope="module")
def api(tokenizer: Tokenizer) -> Iterator[schemathesis.BaseSchema]:
    """The described API of a running app."""
    config = ServerConfig(MODEL, api_keys=(KEY,), debug_endpoints=True)
    with in_thread(make_app(tokenizer, config=config).asgi) as url:
        yield described(url)


def described(url: str) -> schemathesis.BaseSchema:
    config = SchemathesisConfig.from_dict(
        {
            "seed": 20,
            "base-url": url,
            "headers": {"Authorization": f"Bearer {KEY}"},
            "generation": {"max-examples": EXAMPLES, "database": "none"},
            "checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}},
        }
    )
    return schemathesis.openapi.from_dict(openapi_document(), config=config)


@schemathesis.hook
def before_call(_context: HookContext, case: schemathesis.Case, _kwargs: Json) -> None:
    if isinstance(case.body, dict) and case.meta and case.meta.generation.mode.is_positive:
        case.body = fitted(case.body, case.operation.path)


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.name != ENDLESS],
    ids=lambda operation: operation.name,
)
def test_the_app_is_what_its_description_says(
    api: schemathesis.BaseSchema, operation: Operation
) -> None:
    tried, failures = 0, []
    for event in from_schema(api.include(operation_id=operation.name)).execute():
        if isinstance(event, NonFatalError | FatalError):
            failures.append(repr(event))
        if isinstance(event, ScenarioFinished):
            tried += len(event.recorder.cases)
            failures += [explain(event, check) for check in failed_checks(event)]
    assert not failures, "\n\n".join(failures[:5])
    assert tried > 0


def failed_checks(event: ScenarioFinished) -> Iterator[CheckNode]:
    for checks in event.recorder.checks.values():
        yield from (check for check in checks if check.failure_info is not None)


def explain(event: ScenarioFinished, check: CheckNode) -> str:
    info = check.failure_info
    return f"{event.phase.value}: {check.name}: {info.failure.message}\n{info.code_sample[:2000]}"


def fitted(body: Json, path: str) -> Json:
    """A right request, made to fit this very model, so that it must be answered.

    No schema tells what the model knows (its name, its vocabulary, its context), nor which
    fields fit together.
    """
    fit = {name: value for name, value in body.items() if name not in LEFT_OUT}
    fit["model"] = MODEL
    for name, small in SMALL.items():
        if fit.get(name) is not None:
            fit[name] = small(fit[name])
    for name, needed in NEEDS.items():
        if not fit.get(needed):
            fit.pop(name, None)
    if path == "/tokenize" and not fit.get("messages"):
        fit["prompt"] = fit.get("prompt") or "x"
    if fit.get("prompt") is not None:
        fit.pop("messages", None)
    if fit.get("stream"):
        fit.pop("best_of", None)
    elif fit.get("best_of"):
        fit["best_of"] = max(fit["best_of"], fit.get("n") or 1)
    return fit


def small_prompt(prompt: object) -> object:
    if isinstance(prompt, str):
        return prompt[:CONTEXT] or "x"
    if isinstance(prompt, list) and all(isinstance(item, int | float) for item in prompt):
        return small_ids(prompt)
    return [small_prompt(item) for item in prompt[:3]]


def small_ids(ids: list[float]) -> list[int]:
    return [int(token_id) % VOCABULARY for token_id in ids[:CONTEXT]]


def small_messages(messages: list[Json]) -> list[Json]:
    return [{**message, "content": small_content(message)} for message in messages[:3]]


def small_content(message: Json) -> object:
    content = message.get("content")
    if isinstance(content, list):
        return [{**part, "text": part["text"][:CONTEXT]} for part in content[:3]]
    return content[:CONTEXT] if content is not None else None


SMALL: Mapping[str, Callable[..., object]] = {
    "prompt": small_prompt,
    "messages": small_messages,
    "tokens": small_ids,
    "stop_token_ids": small_ids,
    "logit_bias": lambda bias: {str(int(key) % VOCABULARY): bias[key] for key in bias},
    "n": lambda n: min(n, 3),
    "best_of": lambda n: min(n, 5),
    "chat_template_kwargs": lambda kwargs: {f"x{name}": kwargs[name] for name in kwargs},
}
NEEDS = {"stream_options": "stream", "top_logprobs": "logprobs"}
# With these a right request asks for a certain last message, or for more tokens than it allows.
LEFT_OUT = ("continue_final_message", "min_tokens")
