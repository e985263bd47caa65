"""GET /v1/models and /v1/models/{id}."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.api.app_context import AppContext, context_of
from server.api.responding import json_response
from server.api.schemas.model import ModelCard, ModelList

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> Response:
    return json_response(ModelList(object="list", data=[_card(context_of(request))]))


@router.get("/v1/models/{model_id:path}")
async def show_model(request: Request, model_id: str) -> Response:
    context = context_of(request)
    context.check_model(model_id)
    return json_response(_card(context))


def _card(context: AppContext) -> ModelCard:
    return ModelCard(
        id=context.config.served_model_name,
        object="model",
        created=context.started,
        owned_by="octavo",
        max_model_len=context.engine.limits.max_model_len,
    )
