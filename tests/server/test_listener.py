"""A taken, unknown or forbidden address is noticed by listening, and named in one line."""

import socket
from pathlib import Path

import pytest

from server.config import ListenConfig, TlsFiles
from server.listener import ListenError, listen
from tests.support.tls_files import CERTIFICATE, KEY


def test_port_0_takes_a_free_port_and_tells_it() -> None:
    listener = listen(ListenConfig(port=0))
    port = listener.socket.getsockname()[1]
    listener.close()
    assert listener.url == f"http://127.0.0.1:{port}"
    assert port > 0


@pytest.mark.parametrize("first", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("second", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_port_is_never_shared(first: str, second: str) -> None:
    """Case F02."""
    taken = listen(ListenConfig(first, 0))
    port = taken.socket.getsockname()[1]
    with pytest.raises(ListenError, match=rf"{second}:{port} is already in use"):
        listen(ListenConfig(second, port))
    taken.close()


def test_a_port_is_free_again_once_closed() -> None:
    first = listen(ListenConfig(port=0))
    port = first.socket.getsockname()[1]
    first.close()
    listen(ListenConfig(port=port)).close()


def test_a_port_that_is_bound_but_silent_is_taken_too() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ListenError, match=str(port)):
            listen(ListenConfig(port=port))


@pytest.mark.parametrize("host", ["nonsense.invalid", "256.0.0.1", "a..b", "192.0.2.1"])
def test_a_host_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(ListenError, match=host.replace(".", r"\.")) as caught:
        listen(ListenConfig(host, 0))
    assert "\n" not in str(caught.value)


def test_ipv6_addresses_are_shown_in_brackets() -> None:
    listener = listen(ListenConfig("::1", 0))
    listener.close()
    assert listener.url.startswith("http://[::1]:")


def test_a_unix_socket_appears_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "octavo.sock"
    listener = listen(ListenConfig(unix_socket=path))
    assert path.is_socket()
    assert listener.url == f"unix:{path}"
    listener.close()
    assert not path.exists()


def test_a_unix_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "octavo.sock"
    listener = listen(ListenConfig(unix_socket=path))
    with pytest.raises(ListenError, match=r"octavo\.sock is already in use"):
        listen(ListenConfig(unix_socket=path))
    assert path.is_socket()
    listener.close()


def test_a_unix_socket_that_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "octavo.sock"
    listen(ListenConfig(unix_socket=path)).socket.close()
    assert path.is_socket()
    listen(ListenConfig(unix_socket=path)).close()


def test_a_file_in_the_place_of_a_unix_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(ListenError, match="something else of this name"):
        listen(ListenConfig(unix_socket=path))
    assert path.read_text() == "data"


def test_a_unix_socket_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match=r"--uds .*no such file"):
        listen(ListenConfig(unix_socket=tmp_path / "absent" / "octavo.sock"))


def test_tls_files_are_checked_before_anything_else() -> None:
    listener = listen(ListenConfig(port=0, tls=TlsFiles(CERTIFICATE, KEY)))
    listener.close()
    assert listener.url.startswith("https://")
    for wrong in (TlsFiles(KEY, KEY), TlsFiles(CERTIFICATE, CERTIFICATE)):
        with pytest.raises(ListenError, match="--tls-cert") as caught:
            listen(ListenConfig(port=0, tls=wrong))
        assert "\n" not in str(caught.value)
