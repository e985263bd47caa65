"""Octavo as a service of a Mac's user: what launchd is told, and how it is asked.

The property list's keys are those of launchd.plist(5); the commands are launchctl(1)'s.
"""

import plistlib
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LABEL = "octavo.serve"
_DRAIN_MARGIN = 15  # seconds beyond --grace until launchd kills
_IN_PROGRESS = 36  # launchctl's exit code where a service is still ending


def one_second() -> None:
    time.sleep(1)


class LaunchdError(Exception):
    """launchd cannot do what it was asked; the message is one line."""


@dataclass(frozen=True, slots=True)
class LaunchAgent:
    """What to run, for whom. `command` is a whole command line; relative paths start at `folder`."""

    command: tuple[str, ...]
    folder: Path
    home: Path
    grace_seconds: float

    @property
    def log(self) -> Path:
        return self.home / "Library/Logs/octavo.log"


def property_list(agent: LaunchAgent) -> bytes:
    """The agent as launchd reads it: started at login, and again whenever it fails. Raises
    LaunchdError."""
    keys = {
        "Label": LABEL,
        "ProgramArguments": list(agent.command),
        "WorkingDirectory": str(agent.folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        # SIGTERM drains; launchd's own limit of 20 seconds would cut answers off.
        "ExitTimeOut": int(agent.grace_seconds) + _DRAIN_MARGIN,
        "ProcessType": "Interactive",
        "SoftResourceLimits": {"NumberOfFiles": 8192},
        "Umask": 0o077,
        "StandardOutPath": str(agent.log),
        "StandardErrorPath": str(agent.log),
    }
    try:
        return plistlib.dumps(keys, sort_keys=False)
    except ValueError as error:  # a control character, or bytes that are no UTF-8
        raise LaunchdError(f"launchd's file is plain text: {error}") from error


class Launchd:
    """The user's own launchd. `launchctl` is the program to ask; `pause` waits between two of at
    most `pauses` questions."""

    def __init__(
        self,
        home: Path,
        user_id: int,
        launchctl: str = "launchctl",
        pause: Callable[[], None] = one_second,
        pauses: int = 3600,
    ) -> None:
        self.file = home / "Library/LaunchAgents" / f"{LABEL}.plist"
        self._domain = f"gui/{user_id}"
        self._launchctl = launchctl
        self._pause = pause
        self._pauses = pauses

    @property
    def installed(self) -> bool:
        return self.file.exists()

    def install(self, agent: LaunchAgent) -> None:
        """Writes the file and starts the service; one that runs is replaced. Raises LaunchdError."""
        text = property_list(agent)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        agent.log.parent.mkdir(parents=True, exist_ok=True)
        self._unload()
        self.file.write_bytes(text)
        self.file.chmod(0o600)
        self._ask("bootstrap", self._domain, str(self.file))

    def uninstall(self) -> None:
        """Stops the service, which drains, and removes the file. Raises LaunchdError."""
        if not self.installed:
            raise LaunchdError("no service is installed")
        self._unload()
        self.file.unlink()

    def status(self) -> str:
        """What launchd knows of the service, in its own words. Raises LaunchdError where nothing."""
        if not self.installed:
            raise LaunchdError("no service is installed")
        return self._ask("print", self._target)

    @property
    def _target(self) -> str:
        return f"{self._domain}/{LABEL}"

    @property
    def _is_loaded(self) -> bool:
        return self._run(["print", self._target]).returncode == 0

    def _unload(self) -> None:
        """Returns once the service has drained and launchd has forgotten it: not before can it be
        started anew."""
        if not self._is_loaded:
            return
        self._ask("bootout", self._target, also_fine=_IN_PROGRESS)
        for _ in range(self._pauses):
            if not self._is_loaded:
                return
            self._pause()
        raise LaunchdError("the service that runs does not end")

    def _ask(self, *arguments: str, also_fine: int = 0) -> str:
        done = self._run(arguments)
        if done.returncode not in (0, also_fine):
            reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise LaunchdError(f"launchctl {' '.join(arguments)}: {reason}")
        return done.stdout

    def _run(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        command = [self._launchctl, *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise LaunchdError(f"{self._launchctl}: {error.strerror}") from error
