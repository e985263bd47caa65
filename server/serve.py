"""`octavo serve`: the port first, then the model, then requests until someone says stop."""

import asyncio
import logging
import sys
from dataclasses import replace
from functools import partial

from engine.build import build_engine
from engine.device import report_device, select_device
from server.api.metrics import Metrics
from server.config import ServeConfig
from server.draft_model import with_draft_model
from server.listener import ListenError, listen
from server.logs import configure_logging
from server.machine import available_memory
from server.service import FAILED, Loaded, Service
from server.start_report import report_start, warn_at_start
from server.store.model_store import ModelSource, resolve_model
from server.text.tokenizer_loading import load_tokenizer

log = logging.getLogger(__name__)


def serve(config: ServeConfig) -> int:
    """Runs the server to its end and returns the exit code. Raises ModelError before it serves."""
    configure_logging(config.log)
    try:
        listener = listen(config.listen)
    except ListenError as error:
        print(f"octavo: {error}", file=sys.stderr)
        return FAILED
    try:
        source = resolve_model(config.model)
        config = _named(config, source)
        log.info("loading %s; listening on %s", source.path, listener.url)
        return asyncio.run(Service(config, listener, partial(_load, config, source)).run())
    finally:
        listener.close()


def _named(config: ServeConfig, source: ModelSource) -> ServeConfig:
    name = config.http.served_model_name or source.name
    return replace(config, http=replace(config.http, served_model_name=name))


async def _load(config: ServeConfig, source: ModelSource, metrics: Metrics) -> Loaded:
    """Raises ModelError."""
    tokenizer = await asyncio.to_thread(load_tokenizer, source.path)
    engine = await asyncio.to_thread(with_draft_model, config.engine, tokenizer)
    select_device(config.device, config.threads)
    loop = await build_engine(source.path, engine, metrics)

    def report() -> None:
        limits, stats = loop.limits, loop.stats()
        report_start(config, source, report_device(), limits, stats)
        warn_at_start(config, limits, stats, available_memory())

    return Loaded(loop, tokenizer, report)
