"""`octavo generate`: the answer on the terminal is the answer of the server."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.support.live_server import PATIENCE, live_server
from tests.support.memory import WHERE_PAGES_ARE_RESERVED
from tests.support.processes import piped, started
from tests.support.tiny_gguf import tiny_gguf


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


def command(model: Path, *arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "server", "generate", "--model", str(model), *arguments]


def run(
    model: Path, *arguments: str, stdin: str | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(model, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_answers_are_those_of_the_server(model: Path) -> None:
    with live_server(model) as server:

        def answer(path: str, **body: object) -> dict[str, object]:
            common = {"model": "tiny", "max_tokens": 12, "temperature": 0, **body}
            reply = httpx.post(f"{server.url}{path}", json=common, timeout=PATIENCE).json()
            choice: dict[str, object] = reply["choices"][0]
            return choice

        chat = answer("/v1/chat/completions", messages=[{"role": "user", "content": "hello"}])
        text = answer("/v1/completions", prompt="hello")["text"]
    message = chat["message"]
    assert isinstance(message, dict)
    assert run(model, "hello", "--max-tokens", "12").stdout == f"{message['content']}\n"
    raw = run(model, "--raw", "-", "--max-tokens", "12", stdin="hello")
    assert raw.stdout == f"{text}\n"
    assert raw.stderr == ""
    assert raw.returncode == 0


def test_a_stop_string_and_what_follows_are_not_shown(model: Path) -> None:
    whole = run(model, "--raw", "hello", "--max-tokens", "12").stdout.rstrip("\n")
    stop = whole[4:6]
    cut = run(model, "--raw", "hello", "--max-tokens", "12", "--stop", stop)
    assert cut.stdout == whole[: whole.index(stop)] + "\n"


def test_a_seed_draws_the_same_text_again(model: Path) -> None:
    drawn = ["--raw", "hello", "--max-tokens", "12", "--temperature", "2"]
    first, again, other = (run(model, *drawn, "--seed", seed).stdout for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("flag", "value"), [("--top-k", "1"), ("--top-p", "1e-9"), ("--min-p", "1")]
)
def test_each_limit_alone_can_leave_the_likeliest_token_only(
    model: Path, flag: str, value: str
) -> None:
    common = ["--raw", "hello", "--max-tokens", "12"]
    greedy = run(model, *common)
    assert run(model, *common, "--temperature", "2", flag, value).stdout == greedy.stdout


def test_a_system_message_changes_the_answer(model: Path) -> None:
    common = ["hello", "--max-tokens", "12"]
    assert run(model, *common).stdout != run(model, *common, "--system", "the fox").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--raw", ""], "prompt is empty"),
        (["--max-tokens", "0", "x"], "--max-tokens"),
        (["--temperature", "-1", "x"], "--temperature"),
    ],
)
def test_bad_input_is_code_2_without_a_traceback(
    model: Path, arguments: Sequence[str], words: str
) -> None:
    done = run(model, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_not_there_is_one_line() -> None:
    done = run(Path("/no/such.gguf"), "x")
    assert (done.returncode, done.stderr) == (2, "octavo: /no/such.gguf: no such file or folder\n")


@WHERE_PAGES_ARE_RESERVED
def test_a_kv_cache_beyond_the_address_space_is_one_line(model: Path) -> None:
    limit = 16 << 30
    limited = "import resource as r, runpy, sys; r.setrlimit(r.RLIMIT_AS, ({0}, {0})); {1}".format(
        limit, "runpy.run_module('server', run_name='__main__')"
    )
    arguments = command(model, "hello", "--kv-cache-memory", "64GiB")[3:]
    ended = subprocess.run(
        [sys.executable, "-c", limited, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.stderr.startswith("octavo: the system gives no address space for ")
    assert "pages of K/V, 68,7" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.returncode == 2


def test_ctrl_c_on_a_terminal_ends_cleanly(model: Path) -> None:
    terminal, inner = pty.openpty()
    generating = command(model, "--raw", "hello", "--max-tokens", "500")
    with started(generating, stdout=inner) as process:
        os.close(inner)
        assert os.read(terminal, 1)  # the answer has begun
        process.send_signal(signal.SIGINT)
        told = piped(process.stderr).read()
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
        os.close(terminal)
    assert told == "octavo: interrupted\n"


def test_an_output_that_is_full_is_one_line(model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command(model, "hello", "--max-tokens", "12"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert ended.stderr == "octavo: the output cannot be written: No space left on device\n"
    assert ended.returncode == 1


def test_a_reader_that_leaves_ends_it_without_a_word(model: Path) -> None:
    with started(command(model, "hello", "--max-tokens", "200", "--temperature", "0")) as process:
        piped(process.stdout).close()
        assert process.wait(PATIENCE) == 0
        assert piped(process.stderr).read() == ""
