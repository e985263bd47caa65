"""A missing program is no hidden gap: it is named, and in the gate it is a failure."""

import re
from pathlib import Path

import pytest

from tests.support.real_parts import REQUIRED, part, program

ROOT = Path(__file__).parent.parent.parent


def test_a_missing_program_is_skipped_by_the_name_of_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(REQUIRED, raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt install a-package"):
        program("no-such-program", "a-package")
    with pytest.raises(pytest.skip.Exception, match="apt install a-package"):
        part(Path("/no/such/file"), "a-package")


def test_in_the_gate_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRED, "required")
    with pytest.raises(pytest.fail.Exception, match="apt install a-package"):
        program("no-such-program", "a-package")


def test_the_gate_asks_for_all_of_them_and_installs_every_package_that_tests_name() -> None:
    gate = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert f'export {REQUIRED}="${{{REQUIRED}:-required}}"' in gate
    assert "sh .ci/real-parts &" in gate
    script = (ROOT / ".ci/real-parts").read_text(encoding="utf-8")
    (installed,) = re.findall(r'^packages="(.*)"$', script, re.MULTILINE)
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    calls = r'(?:program\("[\w-]+", (?:package=)?|^PACKAGES? = )"([\w -]+)"'
    named = {name for text in sources for name in re.findall(calls, text, re.MULTILINE)}
    wanted = {word for name in named for word in name.split()} - {"a-package"}
    assert {"nginx", "prometheus", "docker-compose", "systemd", "chromium"} <= wanted
    assert wanted <= set(installed.split())
