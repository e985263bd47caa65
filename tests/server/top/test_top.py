"""`octavo top` before servers of every kind, and on terminals."""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from subprocess import Popen

import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from engine.engine_view import EngineView
from server.api.app import Surroundings
from server.api.dashboard.feed import MAX_WATCHERS
from server.api.schemas.snapshot import Snapshot
from server.cli import main
from server.config import ServerConfig
from server.text.tokenizer import Tokenizer
from server.top.screen import CLOSE, HOME, OPEN
from tests.support.http_app import MODEL, App, make_app
from tests.support.processes import started
from tests.support.threaded_app import in_thread

QUICK = Surroundings(snapshot_seconds=0.02)
PATIENCE = 30.0  # seconds; only a hang takes so long

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def url(tokenizer: Tokenizer) -> Iterator[str]:
    with in_thread(make_app(tokenizer, surroundings=QUICK).asgi) as url:
        yield url


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTAVO_API_KEY", raising=False)


def locked(tokenizer: Tokenizer) -> App:
    return make_app(tokenizer, config=ServerConfig(MODEL, api_keys=("right",)), surroundings=QUICK)


def test_one_frame_is_printed_with_its_rates(url: str, capsys: Capture) -> None:
    assert main(["top", url, "--once"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"octavo {MODEL}")
    assert "generated 0.0 tokens/s" in told.out
    assert "\x1b" not in told.out
    assert told.err == ""


@pytest.mark.parametrize("end", ["/", "/v1", "/v1/"])
def test_a_url_may_come_without_its_scheme_and_as_clients_know_it(
    url: str, end: str, capsys: Capture
) -> None:
    assert main(["top", url.removeprefix("http://") + end, "--once"]) == 0
    assert MODEL in capsys.readouterr().out


def test_json_is_a_snapshot_on_a_line(url: str, capsys: Capture) -> None:
    assert main(["top", url, "--once", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert Snapshot.model_validate_json(line).model == MODEL


def test_the_key_is_sent_from_the_flag_or_the_environment(
    tokenizer: Tokenizer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_thread(locked(tokenizer).asgi) as url:
        assert main(["top", url, "--once", "--api-key", "right"]) == 0
        monkeypatch.setenv("OCTAVO_API_KEY", "right")
        assert main(["top", url, "--once"]) == 0
    assert capsys.readouterr().out.count(MODEL) == 2


def refusal(url: str, capsys: Capture, *flags: str) -> str:
    """The one line that `octavo top` says when it cannot watch."""
    assert main(["top", url, "--once", *flags]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("octavo: ")
    return line


def test_a_wrong_key_is_told(tokenizer: Tokenizer, capsys: Capture) -> None:
    with in_thread(locked(tokenizer).asgi) as url:
        for flags in ((), ("--api-key", "wrong")):
            assert f"{url} asks for a valid key: --api-key KEY" in refusal(url, capsys, *flags)


def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_API_KEY", "ké")
    for source, flags in (("--api-key", ("--api-key", "a\nb")), ("OCTAVO_API_KEY", ())):
        with pytest.raises(SystemExit) as stopped:
            main(["top", "http://127.0.0.1:1", "--once", *flags])
        assert stopped.value.code == 2
        told = capsys.readouterr().err
        assert f"argument {source}: a key must be printable ASCII without spaces" in told
        assert "ké" not in told


def test_a_server_without_a_live_view_is_told(tokenizer: Tokenizer, capsys: Capture) -> None:
    app = make_app(tokenizer, config=ServerConfig(MODEL, dashboard=False))
    with in_thread(app.asgi) as url:
        told = refusal(url, capsys)
    assert "--no-dashboard" in told
    assert "a proxy such as nginx" in told


def test_a_server_that_many_watch_is_told(tokenizer: Tokenizer, capsys: Capture) -> None:
    app = make_app(tokenizer, surroundings=QUICK)
    for _ in range(MAX_WATCHERS):
        app.asgi.state.context.feed.join()
    with in_thread(app.asgi) as url:
        assert "already watch this server" in refusal(url, capsys)


def test_a_server_that_is_not_there_is_told(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "cannot be reached" in refusal(f"http://127.0.0.1:{port}", capsys)


@pytest.mark.parametrize("url", ["ftp://x", "http://a:b:c", "http://x/\udcff", "http://.."])
def test_what_is_no_url_is_told(url: str, capsys: Capture) -> None:
    assert "is no URL of a server" in refusal(url, capsys)


@pytest.mark.parametrize("url", ["unix:/run/octavo.sock", "unix:///run/octavo.sock"])
def test_a_unix_socket_is_told(url: str, capsys: Capture) -> None:
    assert f"{url} is a Unix socket" in refusal(url, capsys)


@contextmanager
def stranger(body: str, media: str, status: int = 200) -> Iterator[str]:
    app = FastAPI()

    @app.get("/dashboard/snapshots")
    def answer() -> PlainTextResponse:
        return PlainTextResponse(body, status, media_type=media)

    with in_thread(app) as url:
        yield url


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        ("<html>", "text/html", 200),
        ("{}", "application/json", 404),
        ("[" * 100_000, "application/json", 404),
        ("no", "text/plain", 401),
    ],
)
def test_another_kind_of_server_is_told(
    body: str, media: str, status: int, capsys: Capture
) -> None:
    with stranger(body, media, status) as url:
        assert f"{url} is no Octavo" in refusal(url, capsys)


def test_another_version_is_told(capsys: Capture) -> None:
    with stranger('data: {"pages": "many"}\n\n', "text/event-stream") as url:
        assert "is another version" in refusal(url, capsys)


def test_an_error_in_the_stream_is_told(capsys: Capture) -> None:
    error = {
        "message": "too busy\n\x1b[2J",
        "type": "server_error",
        "param": None,
        "code": "overloaded",
    }
    with stranger(f"data: {json.dumps({'error': error})}\n\n", "text/event-stream") as url:
        assert refusal(url, capsys).endswith("too busy??[2J")


def test_the_end_of_the_server_is_told(tokenizer: Tokenizer, capsys: Capture) -> None:
    """Frames are printed one after the other where there is no terminal."""
    app = make_app(tokenizer, surroundings=QUICK)

    view = app.engine.view
    views = count()

    def view_twice() -> EngineView:
        if next(views) == 2:
            app.asgi.state.context.feed.close()
        return view()

    app.engine.view = view_twice  # type: ignore[method-assign]
    with in_thread(app.asgi) as url:
        assert main(["top", url]) == 0
    told = capsys.readouterr()
    assert told.out.count(f"octavo {MODEL}") >= 1
    assert told.err == "octavo: the server has ended\n"


class Terminal:
    """The other side of a terminal in which a command runs."""

    def __init__(self, columns: int, lines: int) -> None:
        self._master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self._seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, pattern: str) -> str:
        """What came up to the first match, which is taken off."""
        while not (found := re.search(pattern, self._seen, re.DOTALL)):
            assert select.select([self._master], [], [], PATIENCE)[0], self._seen
            self._seen += self._decoder.decode(os.read(self._master, 65536))
        text, self._seen = self._seen[: found.end()], self._seen[found.end() :]
        return text

    def close(self) -> None:
        os.close(self._master)
        os.close(self.slave)


@contextmanager
def on_a_terminal(
    url: str, size: tuple[int, int] = (80, 24), **environment: str
) -> Iterator[tuple[Terminal, "Popen[str]"]]:
    terminal = Terminal(*size)
    command = [sys.executable, "-m", "server", "top", url]
    with started(
        command, stdout=terminal.slave, env={**os.environ, "TERM": "xterm", **environment}
    ) as process:
        yield terminal, process
    terminal.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_is_drawn_in_place_and_left_as_it_was(url: str, number: signal.Signals) -> None:
    with on_a_terminal(url) as (terminal, process):
        assert terminal.until(re.escape(HOME)).startswith(OPEN)
        first = terminal.until(re.escape(HOME))
        assert MODEL in first
        assert "\x1b[1m" in first
        terminal.resize(40, 12)
        while max(map(len, frame_lines(terminal.until(re.escape(HOME))))) > 40:
            pass
        process.send_signal(number)
        terminal.until(re.escape(CLOSE))
        assert process.wait(PATIENCE) == (0 if number is signal.SIGINT else 128 + number)
        assert process.stderr.read() == ""


def test_a_terminal_without_a_size_is_taken_for_an_ordinary_one(url: str) -> None:
    with on_a_terminal(url, size=(0, 0)) as (terminal, process):
        terminal.until(re.escape(HOME))
        assert max(map(len, frame_lines(terminal.until(re.escape(HOME))))) == 80
        process.send_signal(signal.SIGINT)
        terminal.until(re.escape(CLOSE))
        assert process.wait(PATIENCE) == 0


def test_an_output_that_takes_nothing_is_one_line(
    url: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for flags in (["--once"], ["--once", "--json"]):
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            monkeypatch.setattr("sys.stdout", full)
            assert main(["top", url, *flags]) == 1
        assert capsys.readouterr().err == (
            "octavo: the output cannot be written: No space left on device\n"
        )


def test_colours_are_left_out_where_asked(url: str) -> None:
    with on_a_terminal(url, NO_COLOR="1") as (terminal, process):
        terminal.until(re.escape(HOME))
        assert not re.search(r"\x1b\[\d+m", terminal.until(re.escape(HOME)))
        process.send_signal(signal.SIGINT)
        terminal.until(re.escape(CLOSE))


def test_a_reader_that_leaves_ends_it_without_a_word(url: str) -> None:
    command = [sys.executable, "-m", "server", "top", url, "--json"]
    with started(command) as process:
        assert process.stdout.readline().startswith('{"model"')
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def frame_lines(frame: str) -> list[str]:
    return re.sub(r"\x1b\[[\d?]*[A-Za-z]", "", frame).split("\r\n")
