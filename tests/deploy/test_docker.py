"""The image's very steps, run in a clean folder and a new environment; and the compose file.

No engine is needed. Two things are not repeated: the C++ build, which takes minutes (the extension
of this environment is put in its place), and fetching the dependencies (those of this environment
are lent).
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
import yaml

from server.commands import make_parser
from tests.support.dockerfile import stages
from tests.support.live_server import PATIENCE, STARTED
from tests.support.processes import piped, started
from tests.support.real_parts import program

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "deploy/docker"
BUILD, IMAGE = stages(FOLDER / "Dockerfile")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
COPIED = [name for step in BUILD.all("COPY") for name in step.words[:-1]]


@dataclass(frozen=True)
class Installed:
    """The environment that the image would hold."""

    folder: Path

    def run(self, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.folder / "bin"), **more}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )


def without_build(command: str, folder: Path) -> list[str]:
    """The `pip wheel` of the image, but for its dependencies and its C++."""
    words = command.replace("/wheels", str(folder / "wheels")).split()
    assert words[:2] == ["pip", "wheel"]
    assert words[-1] == "."
    light = ["--quiet", "--no-deps", "--no-build-isolation", "--config-settings=wheel.cmake=false"]
    return [sys.executable, "-m", *words[:-1], *light, "."]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as the first stage does, from nothing but what is copied there."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "src"
    source.mkdir()
    for step in BUILD.all("COPY"):
        *names, target = step.words
        for name in names:
            place = source / target / (name if target == "./" else "")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, place)
    command = without_build(BUILD.all("RUN")[-1].text, folder)
    subprocess.run(command, cwd=source, check=True)
    (found,) = (folder / "wheels").glob("octavo-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Installed as the second stage does, into an environment that holds nothing else."""
    folder = tmp_path_factory.mktemp("image") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    _, _, install = IMAGE.all("RUN")[0].text.partition(" pip ")
    words = install.replace("/wheels", str(wheel.parent)).split()
    python = folder / "bin/python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", *words]
    subprocess.run([*command, "--no-deps", "--disable-pip-version-check"], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    shutil.copy(extension(), packages / "metal")
    mlx = find_spec("mlx")
    assert mlx
    assert mlx.submodule_search_locations
    lent = Path(next(iter(mlx.submodule_search_locations))).parent
    (packages / "lent.pth").write_text(f"{lent}\n")
    # The extension looks for MLX beside itself.
    (packages / "mlx").symlink_to(lent / "mlx")
    return Installed(folder)


def extension() -> Path:
    found = find_spec("metal._ext")
    assert found
    assert found.origin
    return Path(found.origin)


def test_the_build_copies_every_source_and_the_build_is_sent_them() -> None:
    build = PYPROJECT["tool"]["scikit-build"]
    assert {*build["wheel"]["packages"], build["cmake"]["source-dir"]} <= set(COPIED)
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]} <= set(COPIED)
    ignore = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert sorted(line[1:] for line in ignore if line.startswith("!")) == sorted(COPIED)


def test_the_wheel_asks_for_the_dependencies_of_the_project(installed: Installed) -> None:
    code = "import importlib.metadata as m; print(*m.requires('octavo'), sep='\\n')"
    wanted = installed.run(["python", "-c", code]).stdout.splitlines()
    names = {re.split(r"[^\w-]", line)[0] for line in wanted if "extra ==" not in line}
    assert names == {re.split(r"[^\w-]", line)[0] for line in PROJECT["dependencies"]}


def test_nothing_of_the_checkout_is_used(installed: Installed) -> None:
    code = "import server, engine, metal; print(server.__file__, engine.__file__, metal.__file__)"
    places = installed.run(["python", "-c", code]).stdout.split()
    assert all(Path(place).is_relative_to(installed.folder) for place in places)


@pytest.fixture(scope="module")
def address(installed: Installed, tiny_model: Path) -> Iterator[str]:
    """Started as the image starts, but for a model and a port of this test."""
    command = IMAGE.one("ENTRYPOINT").words + IMAGE.one("CMD").words
    own = ["--host=127.0.0.1", "--port=0", "--model", str(tiny_model)]
    models = installed.folder / "models"
    settings = dict(word.split("=") for word in IMAGE.one("ENV").words)
    environment = {name: value.replace("/models", str(models)) for name, value in settings.items()}
    environment["PATH"] = str(installed.folder / "bin")
    octavo = str(installed.folder / "bin" / command[0])
    with started(
        [octavo, *command[1:], *own], env=environment, stderr=subprocess.DEVNULL
    ) as process:
        found = next(filter(None, map(STARTED.match, piped(process.stdout))), None)
        assert found
        yield found[2]
        process.terminate()
        assert process.wait(PATIENCE) == 0


def health_check(address: str) -> list[str]:
    command = IMAGE.one("HEALTHCHECK").text.partition("CMD ")[2]
    words: list[str] = yaml.safe_load(command)
    checked = [word.replace("http://127.0.0.1:8000", address) for word in words]
    assert checked != words
    return checked


def test_the_image_serves_and_its_health_check_says_so(installed: Installed, address: str) -> None:
    installed.run(health_check(address))
    body = {"model": "tiny", "prompt": "hello", "max_tokens": 4, "ignore_eos": True}
    answer = httpx.post(f"{address}/v1/completions", json=body, timeout=PATIENCE)
    assert answer.json()["usage"]["completion_tokens"] == 4


def test_the_health_check_fails_where_nobody_answers(installed: Installed) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        installed.run(health_check("http://127.0.0.1:9"))


def test_the_image_runs_as_a_user_that_is_not_root() -> None:
    user, group = IMAGE.one("USER").text.split(":")
    assert int(user) == int(group) == 10001
    assert f"--uid={user}" in IMAGE.all("RUN")[-1].text
    last = [step.word for step in IMAGE.instructions]
    assert last.index("USER") > max(place for place, word in enumerate(last) if word == "RUN")


def test_both_stages_have_the_same_python_and_system() -> None:
    assert BUILD.base == IMAGE.base
    assert re.fullmatch(r"python:3\.(1[1-9])-slim-bookworm", IMAGE.base)


@pytest.fixture(scope="module")
def compose() -> dict:
    """The file as compose understands it."""
    command = [program("docker-compose", "docker-compose"), "-f", "compose.yaml", "config"]
    environment = {**os.environ, "GRAFANA_PASSWORD": "of this test"}
    done = subprocess.run(
        command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict = yaml.safe_load(done.stdout)
    return found


def test_compose_builds_the_image_and_its_flags_are_flags(compose: dict) -> None:
    octavo = compose["services"]["octavo"]
    assert Path(octavo["build"]["context"]) / octavo["build"]["dockerfile"] == FOLDER / "Dockerfile"
    flags = [word.replace("/run/secrets/octavo_key", os.devnull) for word in octavo["command"]]
    assert make_parser().parse_args(flags).model == "smollm2"
    assert octavo["read_only"]


def test_compose_waits_longer_than_the_server_drains(compose: dict) -> None:
    seconds = compose["services"]["octavo"]["stop_grace_period"]
    assert seconds == "45s"
    assert make_parser().parse_args(["serve"]).grace < 45


def test_every_folder_that_compose_mounts_exists(compose: dict) -> None:
    mounts = [
        mount.split(":")[0]
        for service in compose["services"].values()
        for mount in service["volumes"]
        if mount.startswith("/")
    ]
    assert len(mounts) == 4
    assert [mount for mount in mounts if not Path(mount).exists()] == []


def test_nothing_is_open_but_to_the_machine_itself(compose: dict) -> None:
    ports = [port for service in compose["services"].values() for port in service["ports"]]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_finds_the_server_and_its_key_under_compose(compose: dict) -> None:
    text = (FOLDER.parent / "prometheus/prometheus.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["octavo:8000"]}]
    (secret,) = compose["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    assert compose["services"]["prometheus"]["secrets"][0]["source"] == secret


def test_compose_asks_for_a_password() -> None:
    command = [program("docker-compose", "docker-compose"), "-f", "compose.yaml", "config"]
    without = {name: value for name, value in os.environ.items() if name != "GRAFANA_PASSWORD"}
    done = subprocess.run(
        command, cwd=FOLDER, env=without, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "choose a password for Grafana" in done.stderr
