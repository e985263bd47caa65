"""POST /v1/chat/completions."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import InvalidRequest
from engine.request import SamplingParams
from server.api.app_context import AppContext, context_of
from server.api.chat_format import ChatFormat
from server.api.chat_prompt import encode_chat
from server.api.request_body import read_request
from server.api.request_log import record_of
from server.api.responding import answer_head, open_answer, stream, whole, whole_response
from server.api.sampling import check_stream_options, sampling_params, text_rules
from server.api.schemas.chat import ChatRequest

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    context = context_of(request)
    record_of(request).is_generation = True
    context.active.check_admission()
    body = await read_request(request, ChatRequest, context.config.max_body_bytes, context.workers)
    context.check_model(body.model)
    check_stream_options(body)
    wants_logprobs = _wants_logprobs(body)
    prompt = await encode_chat(context.encoder, body.messages, body)
    sampling = _sampling(context, body, len(prompt.token_ids))
    rules = text_rules(body, echo=False, logprobs=wants_logprobs)
    form = ChatFormat(
        answer_head(context, "chatcmpl", body), context.tokenizer, logprobs=wants_logprobs
    )
    answer = open_answer(context, request, [prompt], [sampling], rules, fields=body)
    if body.stream:
        return stream(context, request, answer, form)
    choices = await whole(request, answer)
    return await whole_response(context, answer, form, choices)


def _wants_logprobs(body: ChatRequest) -> bool:
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidRequest(
            "'top_logprobs' is only allowed together with 'logprobs': true.", "top_logprobs"
        )
    return bool(body.logprobs)


def _sampling(context: AppContext, body: ChatRequest, prompt_tokens: int) -> SamplingParams:
    limits = context.engine.limits
    given = [value for value in (body.max_tokens, body.max_completion_tokens) if value is not None]
    left = max(limits.max_model_len - prompt_tokens, 1)
    return sampling_params(
        body,
        max_tokens=min(given) if given else left,
        n=body.n or 1,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        prompt_logprobs=None,
    )
