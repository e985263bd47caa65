"""The service files: what systemd thinks of its unit, and what launchd would run."""

import os
import plistlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from server.commands import make_parser
from server.config import ServeConfig
from server.flag_reading import serve_config
from server.launchd import LaunchAgent, property_list
from server.machine import this_machine
from tests.support.live_server import PATIENCE, STARTED
from tests.support.processes import piped, started
from tests.support.real_parts import program

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
UNIT = DEPLOY / "systemd/octavo.service"
OCTAVO = Path(sys.executable).with_name("octavo")


def unit_here(folder: Path) -> Path:
    """The unit, for the octavo of this environment."""
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("/opt/octavo/bin/octavo serve") == 1
    path = folder / UNIT.name
    path.write_text(text.replace("ExecStart=/opt/octavo/bin/octavo", f"ExecStart={OCTAVO}"))
    return path


def analyze(*arguments: str) -> str:
    command = [program("systemd-analyze", "systemd"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def directive(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return str(value)


def config_of(*flags: str) -> ServeConfig:
    return serve_config(make_parser().parse_args(["serve", *flags]), {}, this_machine())


def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    assert analyze("verify", "--man=no", str(unit_here(tmp_path))) == ""


def test_systemd_finds_a_fault_where_there_is_one(tmp_path: Path) -> None:
    unit = unit_here(tmp_path)
    unit.write_text(unit.read_text().replace("DynamicUser=yes", "DynamicUsers=yes"))
    with pytest.raises(AssertionError):
        assert analyze("verify", "--man=no", str(unit)) == ""


def test_the_unit_leaves_little_open(tmp_path: Path) -> None:
    """systemd's own scale goes from 0, closed, to 100."""
    analyze("security", "--offline=true", "--threshold=20", str(unit_here(tmp_path)))


def test_systemd_waits_longer_than_the_server_drains() -> None:
    assert int(directive("TimeoutStopSec")) > config_of().grace_seconds


def test_the_files_that_the_unit_says_to_install_lie_there() -> None:
    named = re.findall(r"^#   install .*?(\S+) /etc/", UNIT.read_text("utf-8"), re.MULTILINE)
    assert len(named) == 2
    assert all((DEPLOY.parent / name).is_file() for name in named)


def test_the_flags_of_the_example_are_flags() -> None:
    text = (DEPLOY / "systemd/environment.example").read_text(encoding="utf-8")
    (flags,) = re.findall(r'^OCTAVO_FLAGS="(.*)"$', text, re.MULTILINE)
    assert config_of(*flags.split()).listen.port == 8000
    assert re.search(r"^OCTAVO_API_KEY=.+$", text, re.MULTILINE)


def test_the_example_of_a_launch_agent_is_what_the_command_writes() -> None:
    text = (DEPLOY / "launchd/octavo.serve.plist").read_text(encoding="utf-8")
    keys = plistlib.loads(text.encode())
    home = Path(keys["StandardOutPath"]).parent.parent.parent
    folder = Path(keys["WorkingDirectory"])
    agent = LaunchAgent(tuple(keys["ProgramArguments"]), folder, home, config_of().grace_seconds)
    assert re.sub(r"<!--.*?-->\n", "", text, flags=re.DOTALL) == property_list(agent).decode()


def test_what_launchd_would_run_serves_and_drains(tiny_model: Path, tmp_path: Path) -> None:
    """As launchd runs it: from the working folder, with next to no environment."""
    (tmp_path / "server").mkdir()  # not the one that is meant
    flags = ["--model", os.path.relpath(tiny_model, tmp_path), "--port", "0"]
    here = {**os.environ, "HOME": str(tmp_path)}
    printed = subprocess.run(
        [OCTAVO, "service", "print", *flags],
        cwd=tmp_path,
        env=here,
        capture_output=True,
        check=True,
    )
    keys = plistlib.loads(printed.stdout)
    there = ["sh", "-c", 'cd "$0" && exec "$@"', keys["WorkingDirectory"]]
    command = [*there, "env", "-i", f"HOME={tmp_path}"]
    with started([*command, *keys["ProgramArguments"]], stderr=subprocess.DEVNULL) as process:
        assert any(STARTED.match(line) for line in piped(process.stdout))
        process.terminate()
        assert process.wait(PATIENCE) == 0
