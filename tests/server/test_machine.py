"""How much memory there is to take."""

from pathlib import Path

from server.machine import available_memory, this_machine

MEMINFO = "MemTotal:  100 kB\nMemAvailable:  50 kB\n"


def files(folder: Path, **contents: str) -> Path:
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


def test_what_linux_calls_available_is_available(tmp_path: Path) -> None:
    files(tmp_path, meminfo=MEMINFO)
    assert available_memory(tmp_path / "meminfo", tmp_path) == 50 * 1024


def test_a_containers_limit_counts_where_it_is_tighter(tmp_path: Path) -> None:
    files(tmp_path, meminfo=MEMINFO, memory_max="30000\n", memory_current="10000\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 20000


def test_a_container_without_a_limit_has_what_the_machine_has(tmp_path: Path) -> None:
    files(tmp_path, meminfo=MEMINFO, memory_max="max\n", memory_current="10000\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 50 * 1024


def test_an_exhausted_container_has_nothing_left(tmp_path: Path) -> None:
    files(tmp_path, meminfo=MEMINFO, memory_max="10\n", memory_current="20\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 0


def test_where_the_system_does_not_tell_all_memory_counts(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "absent", tmp_path) > 1 << 20


def test_this_machine_has_some_memory() -> None:
    assert this_machine().available_memory > 0
