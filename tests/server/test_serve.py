"""`octavo serve` as a process: what it prints, how it ends, and what each flag changes."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.live_server import PATIENCE, STARTED, LiveServer, live_server
from tests.support.processes import piped, started
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tls_files import CERTIFICATE, KEY

SERVE = [sys.executable, "-m", "server", "serve"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def plain(model: Path) -> Iterator[LiveServer]:
    """A server without flags."""
    with live_server(model) as server:
        server.logged("settings:")
        yield server


@pytest.fixture(scope="module")
def extreme(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server whose every flag is set to something that can be seen."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("second\n")
    flags = (
        *("--served-model-name", "other", "--max-model-len", "64", "--device", "cpu"),
        *("--threads", "1", "--attention", "dense", "--kv-cache-memory", "1MiB"),
        *("--kv-dtype", "float16", "--page-size", "4", "--no-prefix-cache"),
        *("--max-num-seqs", "2", "--max-num-batched-tokens", "4", "--host", "localhost"),
        *("--api-key", "first", "--api-key-file", str(keys), "--cors-origin", "https://a.example"),
        *("--max-body-size", "2KiB", "--grace", "1", "--debug-endpoints", "--no-dashboard"),
        *("--log-format", "json", "--log-prompts"),
    )
    with live_server(model, *flags) as server:
        server.logged("settings:")
        yield server


def ask(server: LiveServer, prompt: str, key: str | None = None, **more: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = {"model": server.model, "prompt": prompt, "max_tokens": 4, "temperature": 0, **more}
    return httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=PATIENCE)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "server", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_start_tells_what_fits(plain: LiveServer) -> None:
    text = ask(plain, "hello").text
    assert "choices" in text, text
    pages = int(plain.metrics()["octavo_pages free"] + plain.metrics()["octavo_pages used"])
    assert "pages of 16 tokens" in plain.log
    assert re.search(r"\d+ requests of (\d+) tokens fit; a request may have \1 tokens", plain.log)
    assert pages > 0


def test_the_first_line_tells_where_the_live_view_is(
    plain: LiveServer, extreme: LiveServer
) -> None:
    served = f"Octavo serves tiny on {plain.url}"
    assert plain.greeting == f"{served} (live view: {plain.url}/dashboard)"
    assert extreme.greeting == f"Octavo serves other on {extreme.url}"
    found = httpx.get(plain.url, follow_redirects=True, timeout=PATIENCE)
    assert (found.status_code, found.url.path) == (200, "/dashboard")


def test_the_start_tells_every_setting(plain: LiveServer) -> None:
    for setting in ("page_size=16", "max_num_seqs=64", "kv_dtype=float32", "grace_seconds=30"):
        assert setting in plain.log
    for found_out in (r"\bthreads=\d+", r"\bmax_model_len=\d+"):
        assert re.search(found_out, plain.log)


def test_the_served_name_follows_the_flag_or_the_file(
    plain: LiveServer, extreme: LiveServer
) -> None:
    assert (plain.model, extreme.model) == ("tiny", "other")


def test_keys_from_every_source_open_the_door_and_no_others(extreme: LiveServer) -> None:
    assert ask(extreme, "hello").status_code == 401
    assert ask(extreme, "hello", "third").status_code == 401
    assert ask(extreme, "hello", "first").status_code == 200
    assert ask(extreme, "hello", "second").status_code == 200


def test_a_key_may_come_from_the_environment(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_API_KEY", "hidden")
    with live_server(model) as server:
        assert ask(server, "hello").status_code == 401
        assert ask(server, "hello", "hidden").status_code == 200
        assert "hidden" not in server.log


def test_the_context_is_as_long_as_the_flag_says(extreme: LiveServer) -> None:
    answer = ask(extreme, "word " * 70, "first")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "64" in answer.json()["error"]["message"]


def test_a_large_body_is_refused_by_the_flags_measure(
    plain: LiveServer, extreme: LiveServer
) -> None:
    assert ask(extreme, "x" * 3000, "first").status_code == 413
    assert ask(plain, "x" * 3000).status_code != 413


def test_only_the_named_origin_may_call(extreme: LiveServer) -> None:
    for origin, expected in (
        ("https://a.example", "https://a.example"),
        ("https://b.example", None),
    ):
        answer = httpx.get(f"{extreme.url}/livez", headers={"origin": origin}, timeout=PATIENCE)
        assert answer.headers.get("access-control-allow-origin") == expected


def test_the_page_pool_is_shown_only_where_asked_for(
    plain: LiveServer, extreme: LiveServer
) -> None:
    key = {"authorization": "Bearer first"}
    shown = httpx.get(f"{extreme.url}/debug/pages", headers=key, timeout=PATIENCE)
    assert shown.json()["page_size"] == 4
    assert httpx.get(f"{plain.url}/debug/pages", timeout=PATIENCE).status_code == 404


def test_pages_follow_size_type_and_budget(extreme: LiveServer) -> None:
    found = json.loads(next(line for line in extreme.log.splitlines() if "KV cache" in line))
    words = found["message"].split()
    pages, bytes_each = int(words[4]), int(words[9])
    assert "pages of 4 tokens" in found["message"]
    assert pages == (1 << 20) // bytes_each


def test_a_narrower_kv_type_makes_smaller_pages(plain: LiveServer, extreme: LiveServer) -> None:
    def bytes_per_token(log: str, page_size: int) -> int:
        words = log.partition("KV cache: ")[2].split()
        return int(words[words.index("tokens,") + 1]) // page_size

    assert bytes_per_token(plain.log, 16) == 2 * bytes_per_token(extreme.log, 4)


def test_a_step_computes_no_more_tokens_than_the_flag_says(extreme: LiveServer) -> None:
    ask(extreme, "hello world " * 8, "first")
    text = httpx.get(
        f"{extreme.url}/metrics", headers={"authorization": "Bearer first"}, timeout=PATIENCE
    ).text
    steps = dict(
        line.split() for line in text.splitlines() if line.startswith("octavo_step_tokens_")
    )
    assert steps['octavo_step_tokens_bucket{le="4.0"}'] == steps["octavo_step_tokens_count"]


def test_a_request_may_ask_for_no_more_choices_than_run_at_once(extreme: LiveServer) -> None:
    assert ask(extreme, "hello", "first", n=2, temperature=1).status_code == 200
    refused = ask(extreme, "hello", "first", n=3, temperature=1)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"


def test_prompts_are_reused_unless_the_flag_forbids_it(
    plain: LiveServer, extreme: LiveServer
) -> None:
    prompt = "hello world page answer question " * 8
    for server in (plain, extreme):
        for _ in range(2):
            assert ask(server, prompt[:120], "first").status_code == 200
    assert plain.metrics()["octavo_prefix_hit_tokens_total"] > 0
    assert "prefix_cache=False" in extreme.log


def test_dense_attention_gives_the_same_text(plain: LiveServer, model: Path) -> None:
    with live_server(model, "--attention", "dense") as dense:
        assert "attention=dense" in dense.logged("settings:")
        assert ask(dense, "hello").json()["choices"] == ask(plain, "hello").json()["choices"]


def test_log_lines_are_json_and_hold_the_prompt_where_asked_for(
    plain: LiveServer, extreme: LiveServer
) -> None:
    assert ask(extreme, "the quick brown fox", "first").status_code == 200
    assert ask(plain, "the quick brown fox").status_code == 200
    lines = [json.loads(line) for line in extreme.logged("quick brown").splitlines()]
    assert any(line.get("prompt") == "the quick brown fox" for line in lines)
    assert "quick brown" not in plain.log


def test_threads_are_as_many_as_the_flag_says(extreme: LiveServer) -> None:
    assert "1 thread," in extreme.log


def test_a_quiet_log_has_no_line_for_a_request(model: Path) -> None:
    with live_server(model, "--log-level", "WARNING") as server:
        assert ask(server, "hello").status_code == 200
    assert server.log == ""


def test_a_request_ends_when_its_time_is_up(model: Path) -> None:
    with live_server(model, "--request-timeout", "0.001") as server:
        answer = ask(server, "hello", max_tokens=400, ignore_eos=True)
    assert answer.status_code == 504


def test_who_waits_is_kept_alive_and_who_finds_the_queue_full_is_refused(model: Path) -> None:
    flags = ("--max-num-seqs", "1", "--max-queue", "1", "--keepalive", "0.01")
    with live_server(model, *flags) as server, ThreadPoolExecutor(6) as pool:
        many = [pool.submit(ask_long, server) for _ in range(6)]
        answers = [answer.result() for answer in many]
    refused = [answer for answer in answers if answer.status_code == 503]
    served = [answer for answer in answers if answer.status_code == 200]
    assert len(refused) + len(served) == 6
    assert refused
    assert all("retry-after" in answer.headers for answer in refused)
    assert any(answer.text.startswith(":") for answer in served)  # waited behind another


def ask_long(server: LiveServer) -> httpx.Response:
    return ask(server, "hello", max_tokens=400, ignore_eos=True, stream=True)


def test_a_unix_socket_serves_and_is_gone_at_the_end(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "octavo.sock"
    command = [*SERVE, "--model", str(model), "--uds", str(path)]
    with started(command, stderr=subprocess.DEVNULL) as process:
        assert piped(process.stdout).readline() == f"Octavo serves tiny on unix:{path}\n"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=PATIENCE) as client:
            assert client.get("http://octavo/health").status_code == 200
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert not path.exists()


def test_tls_serves_https(model: Path) -> None:
    with live_server(model, "--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=str(CERTIFICATE))
        with httpx.Client(verify=trust, timeout=PATIENCE) as client:
            assert client.get(f"{server.url}/health").status_code == 200


def test_a_taken_port_is_noticed_before_the_model_is_looked_for() -> None:
    """Case F02."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", "--model", "/no/such/model", "--port", port)
    assert done.returncode == 1
    assert done.stderr == f"octavo: 127.0.0.1:{port} is already in use\n"


@pytest.mark.parametrize("arguments", [["--host", "nonsense.invalid"], ["--uds", "/no/folder/s"]])
def test_an_address_that_cannot_be_had_is_one_line(arguments: Sequence[str]) -> None:
    done = run("serve", "--model", "/no/such/model", *arguments)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert arguments[1] in done.stderr


def broken_models(folder: Path) -> dict[str, Path]:
    cut = folder / "cut.gguf"
    whole = tiny_gguf(folder / "whole.gguf").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    text = folder / "text.gguf"
    text.write_text("not a model")
    empty = folder / "empty"
    empty.mkdir()
    return {"cut.gguf": cut, "text.gguf": text, "empty": empty, "absent": folder / "absent.gguf"}


@pytest.mark.parametrize("name", ["cut.gguf", "text.gguf", "empty", "absent"])
def test_a_model_that_cannot_be_loaded_is_one_line_and_code_2(tmp_path: Path, name: str) -> None:
    """Cases E06 and E08."""
    path = broken_models(tmp_path)[name]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = run("serve", "--model", str(path), "--port", str(port), "--log-level", "warning")
    assert done.returncode == 2
    assert done.stderr.startswith("octavo: ")
    assert name.removesuffix(".gguf") in done.stderr
    assert done.stderr.count("\n") == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.skipif(sys.platform == "darwin", reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_line(model: Path) -> None:
    done = run("serve", "--model", str(model), "--port", "0", "--device", "gpu")
    assert done.returncode == 2
    assert "--device cpu" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_model_loads_ends_the_process(
    smollm2_path: Path, number: signal.Signals
) -> None:
    """Case F08."""
    with started([*SERVE, "--model", str(smollm2_path), "--port", "0"]) as process:
        assert "loading" in piped(process.stderr).readline()
        process.send_signal(number)
        code = process.wait(PATIENCE)
        rest = piped(process.stderr).read()
    assert code in (128 + number, -number)  # the handler's, or the system's before it was there
    assert "Traceback" not in rest


def test_a_second_signal_ends_the_process_at_once(model: Path) -> None:
    """Case F08."""
    with started([*SERVE, "--model", str(model), "--port", "0"]) as process:
        found = STARTED.match(piped(process.stdout).readline())
        assert found
        url = found[2]
        body = {
            "model": "tiny",
            "prompt": "a",
            "max_tokens": 500,
            "stream": True,
            "ignore_eos": True,
        }
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=PATIENCE) as answer:
            assert answer.status_code == 200
            process.send_signal(signal.SIGTERM)
            while "stopping" not in piped(process.stderr).readline():
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert "Traceback" not in piped(process.stderr).read()


def test_python_m_server_is_octavo() -> None:
    octavo = Path(sys.executable).parent / "octavo"
    shown = subprocess.run(
        [os.fspath(octavo), "--help"], capture_output=True, text=True, check=True
    )
    assert run("--help").stdout == shown.stdout
