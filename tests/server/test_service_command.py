"""`octavo service` keeps the server running on a Mac; a script stands in for launchctl."""

import os
import plistlib
import re
import sys
from pathlib import Path

import pytest

from server.commands import run_command
from server.launchd import LABEL, LaunchAgent, Launchd, LaunchdError

LAUNCHCTL = """#!{python}
import sys
from pathlib import Path

folder = Path({folder!r})
loaded = folder / "loaded"
with (folder / "asked").open("a") as asked:
    print(*sys.argv[1:], file=asked)
if sys.argv[1] == "bootstrap":
    if (folder / "broken").exists():
        sys.exit("Bootstrap failed: 5: Input/output error")
    loaded.touch()
elif not loaded.exists():
    sys.exit("Could not find service")
elif sys.argv[1] == "bootout":
    if (folder / "draining").exists():
        print("Boot-out failed: 36: Operation now in progress", file=sys.stderr)
        sys.exit(36)
    loaded.unlink()
else:
    print("state = running")
"""


@pytest.fixture
def launchctl(tmp_path: Path) -> Path:
    script = tmp_path / "launchctl"
    script.write_text(LAUNCHCTL.format(python=sys.executable, folder=str(tmp_path)))
    script.chmod(0o755)
    return script


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def launchd(home: Path, launchctl: Path) -> Launchd:
    return Launchd(home, 501, str(launchctl))


def agent_of(home: Path, *flags: str, grace: float = 30) -> LaunchAgent:
    return LaunchAgent(("octavo", "serve", *flags), Path("/"), home, grace)


def asked(launchctl: Path) -> list[str]:
    return (launchctl.parent / "asked").read_text().splitlines()


def test_install_writes_the_file_and_starts_it(
    launchd: Launchd, home: Path, launchctl: Path
) -> None:
    launchd.install(agent_of(home, "--port", "1", grace=60))
    keys = plistlib.loads(launchd.file.read_bytes())
    assert launchd.file == home / "Library/LaunchAgents" / f"{LABEL}.plist"
    assert keys["ProgramArguments"] == ["octavo", "serve", "--port", "1"]
    assert keys["ExitTimeOut"] > 60
    assert launchd.file.stat().st_mode & 0o077 == 0
    assert Path(keys["StandardErrorPath"]).parent.is_dir()
    assert asked(launchctl)[-1] == f"bootstrap gui/501 {launchd.file}"


def test_a_second_install_replaces_the_first(launchd: Launchd, home: Path, launchctl: Path) -> None:
    launchd.install(agent_of(home))
    launchd.install(agent_of(home, "--port", "2"))
    words = [line.split()[0] for line in asked(launchctl)]
    assert words[-4:] == ["print", "bootout", "print", "bootstrap"]
    assert plistlib.loads(launchd.file.read_bytes())["ProgramArguments"][-1] == "2"


def test_a_service_that_still_drains_is_waited_for(home: Path, launchctl: Path) -> None:
    folder = launchctl.parent

    def pause() -> None:
        """The drain ends."""
        (folder / "loaded").unlink()

    launchd = Launchd(home, 501, str(launchctl), pause)
    launchd.install(agent_of(home))
    (folder / "draining").touch()
    launchd.install(agent_of(home, "--port", "2"))
    assert [line.split()[0] for line in asked(launchctl)][-5:] == [
        "print",
        "bootout",
        "print",
        "print",
        "bootstrap",
    ]


def test_a_service_that_never_ends_is_one_line(home: Path, launchctl: Path) -> None:
    launchd = Launchd(home, 501, str(launchctl), pauses=2, pause=lambda: None)
    launchd.install(agent_of(home))
    (launchctl.parent / "draining").touch()
    with pytest.raises(LaunchdError, match="the service that runs does not end"):
        launchd.uninstall()
    assert launchd.installed


def test_status_tells_what_launchd_says(launchd: Launchd, home: Path) -> None:
    launchd.install(agent_of(home))
    assert launchd.status() == "state = running\n"


def test_uninstall_stops_it_and_removes_the_file(launchd: Launchd, home: Path) -> None:
    launchd.install(agent_of(home))
    launchd.uninstall()
    assert not launchd.installed
    with pytest.raises(LaunchdError, match="no service is installed"):
        launchd.status()
    with pytest.raises(LaunchdError, match="no service is installed"):
        launchd.uninstall()


def test_what_launchctl_refuses_is_one_line(launchd: Launchd, home: Path, launchctl: Path) -> None:
    (launchctl.parent / "broken").touch()
    with pytest.raises(LaunchdError, match=r"^launchctl bootstrap .*: Bootstrap failed: 5: .*$"):
        launchd.install(agent_of(home))


def test_no_launchctl_is_one_line(home: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchdError, match="No such file"):
        Launchd(home, 501, str(tmp_path / "nowhere")).install(agent_of(home))


def test_print_shows_the_whole_command_line_and_where_it_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["service", "print", "--port", "0", "--grace", "5"]) == 0
    keys = plistlib.loads(capsys.readouterr().out.encode())
    assert keys["ProgramArguments"][0] == sys.executable
    assert keys["ProgramArguments"][-5:] == ["serve", "--port", "0", "--grace", "5"]
    assert keys["WorkingDirectory"] == str(Path.cwd())


@pytest.mark.parametrize("name", ["a\x01b", "\udcff"])
def test_what_no_launchd_file_can_hold_is_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["service", "print", "--model", name]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"octavo: launchd's file is plain text: .+\n", told.err)


@pytest.mark.parametrize("action", ["install", "uninstall", "status"])
def test_elsewhere_than_on_a_mac_it_is_refused(
    action: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert run_command(["service", action]) == 1
    assert "deploy/systemd/octavo.service is for Linux" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--port", "-1"], "argument --port"),
        (["--tls-key", os.devnull], "needs --tls-cert"),
        (["--api-key", "secret"], "a service takes its keys from --api-key-file"),
        (["extra"], "unrecognized arguments"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_written(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in ("install", "print"):
        with pytest.raises(SystemExit) as ended:
            run_command(["service", action, *flags])
        assert ended.value.code == 2
        assert message in capsys.readouterr().err


def test_a_key_of_the_environment_is_not_lost_silently(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OCTAVO_API_KEY", "secret")
    with pytest.raises(SystemExit):
        run_command(["service", "print"])
    assert "does not reach a service" in capsys.readouterr().err
