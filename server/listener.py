"""The listening socket, made before anything slow so that a taken port is noticed at once."""

import os
import socket
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from server.config import ListenConfig, TlsFiles

_BACKLOG = 2048  # connections that wait to be accepted
_PROBE_SECONDS = 0.5
_WILDCARDS: Mapping[str, str] = {"0.0.0.0": "127.0.0.1", "::": "::1"}

Address = tuple[str, int] | tuple[str, int, int, int]


class ListenError(Exception):
    """The address cannot be listened on; the message is one line that names it."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that already listens; `close` it to free the address."""

    socket: socket.socket
    url: str
    unix_socket: Path | None

    def close(self) -> None:
        self.socket.close()
        if self.unix_socket is not None:
            self.unix_socket.unlink(missing_ok=True)


def listen(config: ListenConfig) -> Listener:
    """Raises ListenError where the address is taken, unknown or forbidden, or TLS cannot work."""
    if config.tls is not None:
        _check_tls(config.tls)
    if config.unix_socket is not None:
        return _listen_on_path(config.unix_socket)
    family, address = _resolve(config.host, config.port)
    where = _shown(config.host, config.port)
    # A wildcard and a single address may share a port on some systems: ask whether anyone answers.
    if config.port and _answers(family, (_WILDCARDS.get(address[0], address[0]), config.port)):
        raise ListenError(f"{where} is already in use")
    listener = _listen_on(family, address, where)
    scheme = "https" if config.tls else "http"
    url = f"{scheme}://{_shown(config.host, listener.getsockname()[1])}"
    return Listener(listener, url, None)


def _check_tls(files: TlsFiles) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # An encrypted key would be asked for on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        reason = (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
        raise ListenError(
            f"--tls-cert {files.certificate}, --tls-key {files.key}: {reason}"
        ) from error


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"--host {host}: no such address on this machine") from error
    family, _, _, _, address = found[0]
    return family, (str(address[0]), port, *address[2:])


def _listen_on(family: socket.AddressFamily, address: Address, where: str) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A server that was just stopped leaves the port in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address[0] == "::" and socket.has_dualstack_ipv6():
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(f"cannot listen on {where}: {_reason(error)}") from error
    return listener


def _listen_on_path(path: Path) -> Listener:
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(f"--uds {path}: {_reason(error)}") from error
    return Listener(listener, f"unix:{path}", path)


def _remove_stale(path: Path) -> None:
    """A server that was killed leaves its socket behind; anything else is not ours to remove."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ListenError(f"--uds {path}: {_reason(error)}") from error
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"--uds {path}: there is something else of this name")
    if _answers(socket.AF_UNIX, os.fspath(path)):
        raise ListenError(f"--uds {path} is already in use")
    path.unlink(missing_ok=True)


def _answers(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(address)
        except OSError:
            return False
        return True


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
