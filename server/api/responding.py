"""From a checked request to its response: admit, then answer whole or as a stream."""

import secrets
from collections.abc import AsyncIterator, Sequence
from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from engine.request import Request, SamplingParams
from server.api.answer import Answer, FinishedChoice
from server.api.answer_format import AnswerFormat, AnswerHead
from server.api.app_context import AppContext
from server.api.choice import Choice, ChoiceDelta
from server.api.disconnect import unless_disconnected
from server.api.request_log import record_of
from server.api.schemas.base import ResponseModel
from server.api.schemas.sampling_fields import SamplingFields
from server.api.sse import EventStream
from server.api.text_rules import Prompt, TextRules
from server.api.workers import Workers


def answer_head(context: AppContext, prefix: str, fields: SamplingFields) -> AnswerHead:
    options = fields.stream_options
    return AnswerHead(
        id=f"{prefix}-{secrets.token_hex(12)}",
        created=int(context.wall_clock()),
        model=context.config.served_model_name,
        include_usage=options is not None and bool(options.include_usage),
    )


def open_answer(  # noqa: PLR0913 - an answer has this many independent parts
    context: AppContext,
    request: HttpRequest,
    prompts: Sequence[Prompt],
    sampling: Sequence[SamplingParams],
    rules: TextRules,
    *,
    fields: SamplingFields,
) -> Answer:
    """Submits one engine request per prompt, all or none, under ids of our own making.

    Raises what admission raises. The caller closes the answer.
    """
    call = secrets.token_hex(12)
    requests = [
        Request(
            f"{call}-{index}",
            prompt.token_ids,
            params,
            cache_salt=fields.cache_salt or "",
            speculative=fields.speculative is not False,
        )
        for index, (prompt, params) in enumerate(zip(prompts, sampling, strict=True))
    ]
    choices = [
        Choice(index * params.n + sample, context.tokenizer, prompt, rules)
        for index, (prompt, params) in enumerate(zip(prompts, sampling, strict=True))
        for sample in range(params.n)
    ]
    record = record_of(request)
    if context.config.log_prompts:
        ids = [token_id for prompt in prompts for token_id in prompt.token_ids]
        record.prompt_text = context.tokenizer.decode(ids, skip_special=False)
    generation = context.active.open(requests, record)
    lengths = [len(prompt.token_ids) for prompt in prompts]
    return Answer(generation, choices, lengths, record, context.workers)


def stream(
    context: AppContext, request: HttpRequest, answer: Answer, form: AnswerFormat
) -> EventStream:
    """The answer as server-sent events; the response owns the answer from here."""
    return EventStream(
        _events(answer, form, context.workers),
        answer.close,
        context.stream_limits,
        record_of(request),
    )


async def whole(request: HttpRequest, answer: Answer) -> list[FinishedChoice]:
    """Every choice, once all are finished; where the client leaves first, all are aborted."""
    try:
        return await unless_disconnected(request.receive, answer.finished())
    finally:
        await answer.close()


async def whole_response(
    context: AppContext, answer: Answer, form: AnswerFormat, choices: Sequence[FinishedChoice]
) -> Response:
    """The answer in one piece. Raises Overloaded where a large one finds no room to be written."""
    size = sum(len(choice.entries) for choice in choices)
    return await context.workers.run_if_large(
        size, lambda: json_response(form.whole(choices, answer.usage))
    )


def json_response(model: ResponseModel, status: int = 200) -> Response:
    return Response(model.model_dump_json(), status_code=status, media_type="application/json")


async def _events(answer: Answer, form: AnswerFormat, workers: Workers) -> AsyncIterator[bytes]:
    async for delta in answer.deltas():
        write = partial(_written, form, delta)
        for event in await workers.run_if_large(len(delta.entries), write):
            yield event
    if form.head.include_usage:
        yield _event(form.usage_chunk(answer.usage))


def _written(form: AnswerFormat, delta: ChoiceDelta) -> list[bytes]:
    return [_event(chunk) for chunk in form.chunks(delta)]


def _event(chunk: ResponseModel) -> bytes:
    # ASCII only: some clients split lines at U+2028 and its like too.
    data = chunk.model_dump_json(exclude_unset=True, ensure_ascii=True)
    return b"data: " + data.encode() + b"\n\n"
