"""Every flag lands in the configuration; every bad one is refused by its name."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.config import AttentionKind, Device, EngineConfig, KVDtype, SpeculationConfig
from server.cli import main
from server.commands import make_parser
from server.config import ListenConfig, LogConfig, LogFormat, ServeConfig, ServerConfig, TlsFiles
from server.flag_reading import FlagError, serve_config
from server.flags import GENERATE_FLAGS, SERVE_FLAGS, Flag
from server.machine import Machine
from tests.support.tls_files import CERTIFICATE, KEY

ALL_FLAGS = [flag for group in SERVE_FLAGS for flag in group.flags]


def read(*arguments: str, **environment: str) -> ServeConfig:
    machine = Machine(Device.CPU, available_memory=1000)
    return serve_config(make_parser().parse_args(["serve", *arguments]), environment, machine)


def test_without_flags_the_defaults_hold() -> None:
    assert read() == ServeConfig(
        model="smollm2",
        listen=ListenConfig("127.0.0.1", 8000),
        http=ServerConfig(served_model_name=""),
        engine=EngineConfig(kv_cache_bytes=400, max_num_batched_tokens=128),
        device=Device.CPU,
        threads=None,
        grace_seconds=30,
        log=LogConfig(),
    )


def test_every_flag_lands_in_the_configuration(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("from-file\n\nsecond\n")
    config = read(
        *("--model", "x/y", "--max-model-len", "100", "--device", "GPU", "--threads", "3"),
        *("--attention", "dense", "--kv-cache-memory", "1KiB", "--kv-dtype", "bfloat16"),
        *("--page-size", "8", "--no-prefix-cache", "--max-num-seqs", "5"),
        *("--speculative", "small", "--max-draft-tokens", "5"),
        *("--max-num-batched-tokens", "77", "--max-queue", "9", "--host", "::1", "--port", "0"),
        *("--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY), "--served-model-name", "me"),
        *("--api-key", "a", "--api-key", "b", "--api-key-file", str(keys)),
        *("--cors-origin", "https://a.example", "--cors-origin", "*", "--max-body-size", "2KiB"),
        *("--request-timeout", "4.5", "--keepalive", "2", "--grace", "0", "--debug-endpoints"),
        *("--log-format", "JSON", "--log-level", "DEBUG", "--log-prompts", "--no-dashboard"),
        OCTAVO_API_KEY="c",
    )
    assert config == ServeConfig(
        model="x/y",
        listen=ListenConfig("::1", 0, tls=TlsFiles(CERTIFICATE, KEY)),
        http=ServerConfig(
            served_model_name="me",
            api_keys=("a", "b", "from-file", "second", "c"),
            cors_origins=("https://a.example", "*"),
            max_body_bytes=2048,
            request_timeout=4.5,
            keepalive_seconds=2,
            log_prompts=True,
            dashboard=False,
            debug_endpoints=True,
        ),
        engine=EngineConfig(
            kv_cache_bytes=1024,
            page_size=8,
            max_num_seqs=5,
            max_num_batched_tokens=77,
            max_queue=9,
            max_model_len=100,
            kv_dtype=KVDtype.BFLOAT16,
            attention=AttentionKind.DENSE,
            prefix_cache=False,
            speculation=SpeculationConfig(5, "small"),
        ),
        device=Device.GPU,
        threads=3,
        grace_seconds=0,
        log=LogConfig(LogFormat.JSON, "debug"),
    )


@pytest.mark.parametrize(("max_num_seqs", "tokens"), [("8", 128), ("64", 128), ("200", 400)])
def test_a_step_has_room_for_every_sequence_and_as_many_tokens_of_prompts(
    max_num_seqs: str, tokens: int
) -> None:
    assert read("--max-num-seqs", max_num_seqs).engine.max_num_batched_tokens == tokens


def test_drafting_from_the_text_itself_needs_no_model() -> None:
    assert read("--speculative", "NGram").engine.speculation == SpeculationConfig(8, None)


def test_a_unix_socket_takes_the_place_of_a_port() -> None:
    assert read("--uds", "/tmp/octavo.sock").listen.unix_socket == Path("/tmp/octavo.sock")


def test_a_gpu_has_defaults_of_its_own() -> None:
    engine = read("--device", "gpu").engine
    assert (engine.page_size, engine.max_num_batched_tokens) == (32, 2048)
    assert engine.kv_dtype is KVDtype.FLOAT16


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--uds", "/tmp/s", "--port", "1"], "--uds: cannot be used with --host or --port"),
        (["--uds", "/tmp/s", "--host", "::"], "--uds: cannot be used with --host or --port"),
        (
            ["--max-num-batched-tokens", "8", "--max-num-seqs", "8"],
            "--max-num-batched-tokens: 8 must be above --max-num-seqs, 8",
        ),
        (["--tls-cert", str(CERTIFICATE)], "--tls-cert: needs --tls-key"),
        (["--tls-key", str(KEY)], "--tls-key: needs --tls-cert"),
        (["--max-draft-tokens", "4"], "--max-draft-tokens: needs --speculative"),
        (["--api-key", "two words"], "--api-key: a key must be printable ASCII"),
        (["--api-key", "schlüssel"], "--api-key: a key must be printable ASCII"),
    ],
)
def test_flags_that_contradict_each_other_are_refused_by_name(
    arguments: Sequence[str], words: str
) -> None:
    with pytest.raises(FlagError, match=words):
        read(*arguments)


def test_a_bad_key_is_not_repeated() -> None:
    with pytest.raises(FlagError) as caught:
        read("--api-key", "my secret")
    assert "secret" not in str(caught.value)


def test_a_key_file_must_hold_a_key(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("\n \n")
    with pytest.raises(FlagError, match=r"--api-key-file: .* holds no key"):
        read("--api-key-file", str(tmp_path / "keys"))


def test_a_key_in_the_environment_is_checked_too() -> None:
    with pytest.raises(FlagError, match="OCTAVO_API_KEY"):
        read(OCTAVO_API_KEY="a b")


BAD_VALUES = {
    "--speculative": ["", " "],
    "--max-draft-tokens": ["0", "65", "x"],
    "--model": [""],
    "--max-model-len": ["0", "-1", "abc"],
    "--device": ["tpu", ""],
    "--threads": ["0", "-1", "abc"],
    "--attention": ["sparse"],
    "--kv-cache-memory": ["0", "-1", "abc", "0%", "200%"],
    "--kv-dtype": ["int8"],
    "--page-size": ["0", "-1", "abc"],
    "--max-num-seqs": ["0", "-1", "abc"],
    "--max-num-batched-tokens": ["0", "-1", "abc"],
    "--max-queue": ["0", "-1", "abc"],
    "--host": [""],
    "--port": ["-1", "65536", "70000", "abc"],
    "--uds": [""],
    "--tls-cert": ["/no/such/file", ""],
    "--tls-key": ["/no/such/file", ""],
    "--served-model-name": [""],
    "--api-key": [""],
    "--api-key-file": ["/no/such/file"],
    "--cors-origin": ["", "chat.example", "https://chat.example/", "https://*.example"],
    "--max-body-size": ["0", "-1", "abc", "50%"],
    "--request-timeout": ["0", "-1", "abc", "nan"],
    "--keepalive": ["0", "-1", "abc", "1e-9"],
    "--grace": ["-1", "abc", "inf"],
    "--log-format": ["xml"],
    "--log-level": ["loud", "0"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_VALUES.items() for value in values]
)
def test_a_bad_value_ends_with_code_2_and_names_the_flag(
    name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case F09."""
    with pytest.raises(SystemExit) as caught:
        main(["serve", f"{name}={value}"])
    assert caught.value.code == 2
    assert f"argument {name}:" in capsys.readouterr().err


def test_every_flag_with_a_value_has_bad_ones_here() -> None:
    assert {flag.name for flag in ALL_FLAGS if flag.parse is not None} == set(BAD_VALUES)


def test_contradictions_end_with_code_2_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--uds", "/tmp/s", "--port", "1"])
    assert caught.value.code == 2
    assert "--uds" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["serve", "--prot", "1"], ["serve", "--por", "1"], ["fly"], []]
)
def test_what_is_not_known_is_refused_and_nothing_is_guessed(
    arguments: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "octavo" in capsys.readouterr().err


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (command, flag)
        for command, groups in (("serve", SERVE_FLAGS), ("generate", GENERATE_FLAGS))
        for group in groups
        for flag in group.flags
    ],
)
def test_help_tells_every_flag_with_its_default(
    command: str, flag: Flag, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{flag.usage} {flag.help} (default: {flag.default_text})"
    assert text in help_of(command, capsys)


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("octavo ")


@pytest.mark.parametrize("heavy", ["mlx", "fastapi", "huggingface_hub"])
def test_reading_the_command_line_loads_nothing_heavy(heavy: str) -> None:
    program = (
        f"import sys, server.commands as commands; commands.make_parser(); "
        f"sys.exit({heavy!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
