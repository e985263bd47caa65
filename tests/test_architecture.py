"""The rules of the house hold in every file, and the checks that say so can fail."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.architecture import (
    MAY_IMPORT_METAL,
    STARTS_ENGINES,
    Source,
    import_complaints,
    imports,
    path_complaints,
    purity_complaints,
    size_complaints,
    state_complaints,
)

ROOT = Path(__file__).parent.parent
PRODUCT = ("server", "engine", "metal")
TEXTS = frozenset(
    {
        ".py",
        ".pyi",
        ".md",
        ".toml",
        ".yaml",
        ".yml",
        ".cpp",
        ".h",
        ".metal",
        ".cmake",
        ".txt",
        ".sh",
        "",
    }
)
OTHER_FOLDERS = frozenset({".venv", ".venv-parity", ".git", "build", "dist"})

Check = Callable[[Source], list[str]]


def sources(*folders: str, suffixes: frozenset[str]) -> list[Source]:
    return [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
    ]


MODULES = sources(*PRODUCT, suffixes=frozenset({".py"}))
CODE = sources(*PRODUCT, "tests/support", suffixes=frozenset({".py", ".cpp", ".h", ".metal"}))


def every_text() -> list[Source]:
    """All that is kept with the project: what begins with a dot is not, but for the gate."""
    folders = [
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and path.name not in OTHER_FOLDERS
        if path.name == ".ci" or not path.name.startswith(".")
    ]
    top = [
        Source(path.name, path.read_text(encoding="utf-8"))
        for path in ROOT.iterdir()
        if path.is_file() and path.suffix in TEXTS
    ]
    return top + sources(*folders, suffixes=TEXTS)


@pytest.mark.parametrize("check", [import_complaints, purity_complaints, state_complaints])
def test_every_module_keeps_to_the_rules_of_imports_and_state(check: Check) -> None:
    assert [complaint for source in MODULES for complaint in check(source)] == []


def test_files_and_functions_stay_small() -> None:
    assert [complaint for source in CODE for complaint in size_complaints(source)] == []


def test_nothing_names_a_place_on_one_machine() -> None:
    assert [complaint for source in every_text() for complaint in path_complaints(source)] == []


def test_every_exception_to_the_rules_is_in_use() -> None:
    by_path = {source.path: source for source in MODULES}
    for path in MAY_IMPORT_METAL:
        assert any(name.startswith("metal") for name in imports(by_path[path]))
    for path in STARTS_ENGINES:
        as_others = Source("server/other.py", by_path[path].text)
        assert import_complaints(as_others) != []


def test_all_packages_are_looked_at() -> None:
    assert {source.package for source in MODULES} == set(PRODUCT)
    assert {"README.md", ".ci/run", "pyproject.toml"} <= {source.path for source in every_text()}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("server/api/app.py", "import mlx.core as mx"),
        ("server/api/app.py", "from metal import linear"),
        ("server/api/app.py", "def late():\n    import mlx"),
        ("server/api/app.py", "from engine.build import build_engine"),
        ("server/api/app.py", "from engine import models"),
        ("server/serve.py", "import mlx"),
        ("engine/scheduler.py", "import mlx.core as mx"),
        ("engine/scheduler.py", "import numpy"),
        ("engine/scheduler.py", "import time"),
        ("engine/scheduler.py", "from random import random"),
        ("engine/scheduler.py", "from engine.kv_pages import KVPages"),
        ("engine/scheduler.py", "from engine import engine_loop"),
        ("engine/scheduler.py", "from . import model_runner"),
        ("engine/a_new_module.py", "import mlx"),
        ("engine/sampler.py", "from engine.engine import Engine"),
        ("engine/models/llama.py", "from engine.build import load_engine"),
        ("engine/models/llama.py", "from ..engine_loop import EngineLoop"),
        ("engine/models/llama.py", "import metal"),
        ("engine/engine_loop.py", "import metal"),
        ("engine/engine_loop.py", "from server.api import app"),
        ("metal/ops.py", "from engine.errors import EngineError"),
        ("metal/ops.py", "import server"),
    ],
)
def test_an_import_outwards_is_a_complaint(path: str, text: str) -> None:
    assert len(import_complaints(Source(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("server/api/app.py", "from engine.errors import EngineError\nimport fastapi"),
        ("server/serve.py", "from engine.build import build_engine"),
        (
            "engine/scheduler.py",
            "from collections import deque\nfrom engine.request import Request",
        ),
        ("engine/sampler.py", "import mlx.core as mx\nfrom engine.request import SamplingParams"),
        ("engine/models/linear.py", "import metal"),
        ("engine/build.py", "from engine.models import load_model\nimport time"),
        ("metal/ops.py", "import mlx.core as mx"),
    ],
)
def test_an_import_inwards_is_none(path: str, text: str) -> None:
    assert import_complaints(Source(path, text)) == []


@pytest.mark.parametrize("text", ["open('x')", "print(1)", "def f():\n    input()"])
def test_reading_and_writing_in_the_pure_ring_is_a_complaint(text: str) -> None:
    assert len(purity_complaints(Source("engine/scheduler.py", text))) == 1
    assert purity_complaints(Source("engine/engine_loop.py", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "cache = {}",
        "cache: dict[str, int] = dict()",
        "seen = set()",
        "queue = collections.deque()",
        "squares = [n * n for n in range(3)]",
        "def f():\n    global x",
        "import threading\nhere = threading.local()",
    ],
)
def test_ambient_state_is_a_complaint(text: str) -> None:
    assert len(state_complaints(Source("engine/x.py", text))) == 1


def test_constants_and_local_containers_are_none() -> None:
    text = (
        "__all__ = ['f']\nNAMES = ('a',)\nWAYS = MappingProxyType({})\n"
        "Sizes = Mapping[str, int]\nA: Mapping[str, int] = {}\nB: Sizes = {}\n"
        "def f():\n    x = []\n"
    )
    assert state_complaints(Source("engine/x.py", text)) == []


def test_a_long_file_and_a_long_function_are_complaints() -> None:
    body = "    pass\n" * 60
    assert len(size_complaints(Source("x.py", f"def f():\n{body}"))) == 1
    assert size_complaints(Source("x.py", f"def f():\n{body[:-9]}")) == []
    assert len(size_complaints(Source("x.cpp", "\n" * 401))) == 1


@pytest.mark.parametrize("folder", ["work", "root", "tmp/lab"])
def test_a_place_on_one_machine_is_a_complaint(folder: str) -> None:
    assert len(path_complaints(Source("x.md", f"fine\nsee /{folder}/file"))) == 1
