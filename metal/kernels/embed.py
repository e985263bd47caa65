"""Makes one text of the kernel sources and puts it into a C++ file: python embed.py OUTPUT.cpp VERSION

On the user's machine the text is compiled as a string, without any folder to include from, so every
quoted #include is replaced by its file, once. The system's headers (<...>) stay.
"""

import hashlib
import re
import sys
from pathlib import Path

KERNELS = Path(__file__).parent
FOLDERS = (KERNELS, KERNELS.parent / "src")
_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)

_CPP = """#include "gpu/kernel_source.h"

namespace octavo::gpu {{

const char* const kKernelSource = R"octavo_metal(
{source})octavo_metal";

const char* const kLibraryPrefix = "octavo_{version}_{digest}_";

}}  // namespace octavo::gpu
"""


def kernel_source(folders: tuple[Path, ...] = FOLDERS) -> str:
    """The text of kernels.metal with its quoted includes in place. Raises FileNotFoundError."""
    return _inline("kernels.metal", folders, set())


def _inline(name: str, folders: tuple[Path, ...], seen: set[str]) -> str:
    if name in seen:
        return ""
    seen.add(name)
    path = next((folder / name for folder in folders if (folder / name).exists()), None)
    if path is None:
        raise FileNotFoundError(f"{name} is in none of {', '.join(map(str, folders))}")
    text = path.read_text(encoding="ascii")
    return _INCLUDE.sub(lambda match: _inline(match.group(1), folders, seen), text)


def cpp_source(source: str, version: str) -> str:
    """A C++ file that holds the text and the prefix of library names: version and hash of the text."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    name = re.sub(r"\W", "_", version)
    return _CPP.format(source=source, version=name, digest=digest)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(cpp_source(kernel_source(), sys.argv[2]), encoding="ascii")
