"""What the routes of one app share; made by `create_app`, held by its app alone."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from engine.errors import ModelNotFound
from server.api.active_requests import ActiveRequests
from server.api.dashboard.feed import SnapshotFeed
from server.api.engine_client import EngineClient
from server.api.metrics import Metrics
from server.api.prompt_encoder import PromptEncoder
from server.api.sse import StreamLimits
from server.api.workers import Workers
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class AppContext:
    config: ServerConfig
    engine: EngineClient
    tokenizer: Tokenizer
    metrics: Metrics
    active: ActiveRequests
    feed: SnapshotFeed
    workers: Workers
    encoder: PromptEncoder
    stream_limits: StreamLimits
    wall_clock: Callable[[], float]  # seconds since 1970
    started: int

    def check_model(self, name: str) -> None:
        """One policy for every route: only the served id is known. Raises ModelNotFound."""
        served = self.config.served_model_name
        if name != served:
            raise ModelNotFound(f"The model {name[:200]!r} is not served here; {served!r} is.")


def context_of(request: Request) -> AppContext:
    context = request.app.state.context
    assert isinstance(context, AppContext), "set by create_app"
    return context
