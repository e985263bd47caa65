"""One bench: a sub-command of `octavo bench`, registered by its own file."""

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable
from dataclasses import dataclass

from server.flags import FlagGroup, add_flags


@dataclass(frozen=True, slots=True)
class Bench:
    """`help` is a phrase, `description` whole sentences; `run` returns the exit code.

    A module that defines one is imported by every `octavo` command: `run` imports what is slow to.
    """

    name: str
    help: str
    description: str
    flags: tuple[FlagGroup, ...]
    run: Callable[[Namespace], int]

    def add_to(self, benches: "_SubParsersAction[ArgumentParser]") -> None:
        parser = benches.add_parser(
            self.name,
            help=self.help,
            usage=f"octavo bench {self.name} [flags]",
            description=self.description,
            allow_abbrev=False,
        )
        add_flags(parser, self.flags)
        parser.set_defaults(command=self.run, parser=parser)
