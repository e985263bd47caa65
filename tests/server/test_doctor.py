"""The doctor finds what is well and what is not, and says what helps."""

import socket

import pytest

from server.cli import main
from server.config import ListenConfig
from server.doctor import Finding, examine, port_finding


def test_a_machine_that_passed_the_other_tests_can_compute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["doctor"])
    shown = capsys.readouterr().out
    assert "ok    octavo" in shown
    assert "ok    MLX" in shown
    assert "threads: " in shown


def test_a_finding_with_a_remedy_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine([Finding("well"), Finding("ill", "rest")]) == 1
    assert capsys.readouterr().out == "ok    well\nFAIL  ill\n      rest\n"
    assert examine([Finding("well")]) == 0


def test_a_taken_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        finding = port_finding(ListenConfig(port=taken.getsockname()[1]))
    assert "already in use" in finding.what
    assert "--port" in finding.remedy


def test_a_free_port_is_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert port_finding(ListenConfig(port=port)) == Finding(f"port {port} of 127.0.0.1 is free")
