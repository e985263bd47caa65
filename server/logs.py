"""Log lines for people, or one JSON object on each line for machines."""

import json
import logging
import sys
import time
from typing import TextIO

from server.api.request_record import RequestRecord
from server.config import LogConfig, LogFormat

TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure_logging(config: LogConfig, stream: TextIO = sys.stderr) -> None:
    """Sends everything of at least `config.level` to one stream, in one format.

    For the process: called once, at start.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter_for(config.format))
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "asyncio", "filelock"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def formatter_for(form: LogFormat) -> logging.Formatter:
    return JsonFormatter() if form is LogFormat.JSON else TextFormatter()


class TextFormatter(logging.Formatter):
    """UTC times to the millisecond, as in ISO 8601."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)
        self.converter = time.gmtime


class JsonFormatter(TextFormatter):
    """A finished request's line has its fields as keys of their own."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        request = record.__dict__.get("record")
        if isinstance(request, RequestRecord):
            told |= {"message": "request", **request.fields()}
        else:
            told["message"] = record.getMessage()
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told)
