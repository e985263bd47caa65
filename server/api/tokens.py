"""POST /tokenize and /detokenize: text to token ids and back, as the other routes do it."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import InvalidRequest
from server.api.app_context import AppContext, context_of
from server.api.chat_prompt import encode_chat
from server.api.request_body import read_request
from server.api.responding import json_response
from server.api.schemas.tokens import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)

router = APIRouter()


@router.post("/tokenize")
async def tokenize(request: Request) -> Response:
    context = context_of(request)
    body = await read_request(
        request, TokenizeRequest, context.config.max_body_bytes, context.workers
    )
    context.check_model(body.model)
    token_ids = await _token_ids(context, body)

    def response() -> Response:
        tokenizer = context.tokenizer
        texts = [tokenizer.token_text(i) for i in token_ids] if body.return_token_strs else None
        return json_response(
            TokenizeResponse(
                count=len(token_ids),
                max_model_len=context.engine.limits.max_model_len,
                tokens=token_ids,
                token_strs=texts,
            )
        )

    return await context.workers.run_if_large(len(token_ids), response)


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    context = context_of(request)
    body = await read_request(
        request, DetokenizeRequest, context.config.max_body_bytes, context.workers
    )
    context.check_model(body.model)
    _check_ids(body.tokens, context.tokenizer.vocab_size)

    def decode() -> str:
        return context.tokenizer.decode(body.tokens, skip_special=bool(body.skip_special_tokens))

    return json_response(DetokenizeResponse(prompt=await context.workers.run(decode)))


async def _token_ids(context: AppContext, body: TokenizeRequest) -> list[int]:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("Either 'prompt' or 'messages' is needed, and only one.", "prompt")
    if body.messages is not None:
        return list((await encode_chat(context.encoder, body.messages, body)).token_ids)
    prompts = await context.encoder.encode_texts(
        [body.prompt or ""],
        add_special=body.add_special_tokens is not False,
        parse_special=bool(body.parse_special_tokens),
    )
    return list(prompts[0].token_ids)


def _check_ids(token_ids: Sequence[int], vocab_size: int) -> None:
    if max(token_ids, default=0) >= vocab_size:
        raise InvalidRequest(
            f"'tokens' has id {max(token_ids)}; the vocabulary ends at {vocab_size - 1}.", "tokens"
        )
