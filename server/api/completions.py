"""POST /v1/completions."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import InvalidRequest
from engine.request import SamplingParams
from server.api.answer import FinishedChoice
from server.api.app_context import AppContext, context_of
from server.api.completion_format import CompletionFormat
from server.api.request_body import read_request
from server.api.request_log import record_of
from server.api.responding import answer_head, open_answer, stream, whole, whole_response
from server.api.sampling import check_stream_options, sampling_params, text_rules
from server.api.schemas.completion import CompletionRequest
from server.api.text_rules import Prompt

router = APIRouter()

DEFAULT_MAX_TOKENS = 16  # OpenAI's


@router.post("/v1/completions")
async def create_completion(request: Request) -> Response:
    context = context_of(request)
    record_of(request).is_generation = True
    context.active.check_admission()
    body = await read_request(
        request, CompletionRequest, context.config.max_body_bytes, context.workers
    )
    context.check_model(body.model)
    check_stream_options(body)
    n, best_of = _counts(body)
    prompts = await _prompts(context, body)
    sampling = [_sampling(body, best_of, ranked=best_of > n) for _ in prompts]
    wants_logprobs = body.logprobs is not None
    rules = text_rules(body, echo=bool(body.echo), logprobs=wants_logprobs)
    form = CompletionFormat(
        answer_head(context, "cmpl", body), context.tokenizer, logprobs=wants_logprobs
    )
    answer = open_answer(context, request, prompts, sampling, rules, fields=body)
    if body.stream:
        return stream(context, request, answer, form)
    choices = _best(await whole(request, answer), n, best_of)
    return await whole_response(context, answer, form, choices)


def _counts(body: CompletionRequest) -> tuple[int, int]:
    """n and best_of; raises InvalidRequest where they do not agree."""
    n = body.n or 1
    best_of = body.best_of or n
    if best_of < n:
        raise InvalidRequest(f"'best_of' is {best_of}, less than 'n', which is {n}.", "best_of")
    if best_of > n and body.stream:
        raise InvalidRequest(
            "'best_of' beyond 'n' cannot be streamed: the best are known at the end.", "best_of"
        )
    return n, best_of


async def _prompts(context: AppContext, body: CompletionRequest) -> list[Prompt]:
    """The prompts in their order; the schema has seen to it that a list holds one kind."""
    prompt = body.prompt
    if isinstance(prompt, str):
        return await _encode(context, body, [prompt])
    texts = [item for item in prompt if isinstance(item, str)]
    if texts:
        return await _encode(context, body, texts)
    token_ids = [item for item in prompt if isinstance(item, int)]
    lists = [token_ids] if token_ids else [item for item in prompt if isinstance(item, list)]
    return [Prompt(tuple(ids)) for ids in lists]


async def _encode(
    context: AppContext, body: CompletionRequest, texts: Sequence[str]
) -> list[Prompt]:
    return await context.encoder.encode_texts(
        texts,
        add_special=body.add_special_tokens is not False,
        parse_special=bool(body.parse_special_tokens),
    )


def _sampling(body: CompletionRequest, best_of: int, *, ranked: bool) -> SamplingParams:
    """`ranked` needs log probabilities, asked for or not."""
    logprobs = 0 if ranked and body.logprobs is None else body.logprobs
    return sampling_params(
        body,
        max_tokens=DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens,
        n=best_of,
        logprobs=logprobs,
        prompt_logprobs=body.logprobs if body.echo else None,
    )


def _best(choices: Sequence[FinishedChoice], n: int, best_of: int) -> list[FinishedChoice]:
    """Of each prompt's best_of choices, the n with the best mean log probability, best first."""
    if best_of == n:
        return list(choices)
    groups = [choices[start : start + best_of] for start in range(0, len(choices), best_of)]
    return [
        choice
        for group in groups
        for choice in sorted(group, key=lambda choice: choice.mean_logprob, reverse=True)[:n]
    ]
