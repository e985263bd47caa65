"""`octavo service`: keep the server running on a Mac, with the flags that were given once.

octavo service install --model smollm2 --port 8000
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from server.flag_reading import API_KEY_VARIABLE, FlagError, serve_config
from server.flags import SERVE_FLAGS, add_flags
from server.launchd import LaunchAgent, Launchd, LaunchdError, property_list
from server.machine import this_machine
from server.standard_output import standard_output

_MAC = "darwin"
_WORDS_BEFORE_FLAGS = 2  # service install


def add_service(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, (text, act) in _ACTIONS.items():
        has_flags = act in _WITH_FLAGS
        action = actions.add_parser(
            name,
            help=text,
            usage=f"octavo service {name}{' [flags]' if has_flags else ''}",
            description=_sentence(text),
            allow_abbrev=False,
        )
        if has_flags:
            add_flags(action, SERVE_FLAGS)
        action.set_defaults(command=act, parser=action)


def _print(flags: Namespace) -> int:
    text = property_list(_agent(flags)).decode()
    with standard_output() as out:
        out.write(text)
    return 0


def _install(flags: Namespace) -> int:
    agent = _agent(flags)
    launchd = _launchd()
    launchd.install(agent)
    print(f"Octavo runs from now on, and after each login: {launchd.file}\nIts log: {agent.log}")
    return 0


def _uninstall(_: Namespace) -> int:
    launchd = _launchd()
    launchd.uninstall()
    print(f"Octavo is stopped, and {launchd.file} is gone")
    return 0


def _status(_: Namespace) -> int:
    text = _launchd().status()
    with standard_output() as out:
        out.write(text)
    return 0


_ACTIONS: Mapping[str, tuple[str, Callable[[Namespace], int]]] = MappingProxyType(
    {
        "install": ("start the server now and at every login, with these flags", _install),
        "uninstall": ("stop the server and forget it", _uninstall),
        "status": ("what launchd knows of the server", _status),
        "print": ("print the launchd file for these flags, and do nothing", _print),
    }
)
_WITH_FLAGS = (_install, _print)


def _launchd() -> Launchd:
    """Raises LaunchdError where there is none."""
    if sys.platform != _MAC:
        raise LaunchdError(
            "octavo service speaks to launchd, which only macOS has; "
            "deploy/systemd/octavo.service is for Linux"
        )
    return Launchd(Path.home(), os.getuid())


def _agent(flags: Namespace) -> LaunchAgent:
    """Raises FlagError."""
    config = serve_config(flags, {}, this_machine())
    _refuse_open_keys(flags)
    return LaunchAgent(
        # -P: a folder `server` in the working folder is not this one.
        command=(sys.executable, "-P", "-m", "server", "serve", *flags.given[_WORDS_BEFORE_FLAGS:]),
        folder=Path.cwd(),
        home=Path.home(),
        grace_seconds=config.grace_seconds,
    )


def _refuse_open_keys(flags: Namespace) -> None:
    """A key on a command line can be read by everybody; the environment is not kept at all."""
    if flags.api_key:
        raise FlagError("argument --api-key: a service takes its keys from --api-key-file")
    if os.environ.get(API_KEY_VARIABLE) and flags.api_key_file is None:
        raise FlagError(
            f"{API_KEY_VARIABLE} does not reach a service: put the key into --api-key-file"
        )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
