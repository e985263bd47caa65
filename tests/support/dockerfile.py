"""A Dockerfile taken apart: its stages, and the instructions of each."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """An array as it stands; anything else as a shell would split it."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


@dataclass
class Stage:
    base: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, word: str) -> list[Instruction]:
        return [found for found in self.instructions if found.word == word]

    def one(self, word: str) -> Instruction:
        (found,) = self.all(word)
        return found


def stages(path: Path) -> list[Stage]:
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append(Stage(rest.split()[0]))
        elif word:
            found[-1].instructions.append(Instruction(word, " ".join(rest.split())))
    return found
