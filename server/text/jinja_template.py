"""A model's chat template: Jinja as Hugging Face runs it, in a sandbox."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class TemplateFault(Exception):
    """The template does not compile, or cannot show what it was given, or refused to."""


# A template is the model's program: it raises what it likes on input it was not written for.
_FAULTS = (
    *(jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError),
)


class JinjaTemplate:
    """Compiled at the first use, so that a model whose template is broken still completes text."""

    def __init__(self, source: str) -> None:
        self.source = source

    def render(self, variables: Mapping[str, object]) -> str:
        """Raises TemplateFault with the template's own message where it has one."""
        try:
            return self._compiled.render(**variables)
        except _FAULTS as error:
            raise TemplateFault(_one_line(error)) from error

    @cached_property
    def _compiled(self) -> jinja2.Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        return environment.from_string(self.source)


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks answers for training; here it only shows them."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: jinja2's own filter would escape it for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or "no reason given"
