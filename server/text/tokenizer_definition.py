"""What Octavo reads in a tokenizer.json; the tokenizers package reads the rest."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.errors import ModelError


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class AddedToken(_Part):
    """A token that is matched in the text before any other rule.

    `special` ones are control tokens: they mark turns and ends, and are no text.
    """

    id: int
    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


class Component(_Part):
    """A decoder or a pre-tokenizer, as far as its kind and its spaces go."""

    type: str
    decoders: tuple["Component", ...] = ()
    pretokenizers: tuple["Component", ...] = ()
    prepend_scheme: Literal["always", "first", "never"] | None = None
    add_prefix_space: bool | None = None
    start: int = 0  # of Strip: spaces cut at the start of a text
    content: str | None = None

    def parts(self) -> tuple["Component", ...]:
        """This component, or those it is made of, in order."""
        inner = self.decoders + self.pretokenizers
        return tuple(part for one in inner for part in one.parts()) if inner else (self,)


class TokenizerDefinition(_Part):
    added_tokens: tuple[AddedToken, ...] = ()
    decoder: Component | None = None
    pre_tokenizer: Component | None = None


def parse_definition(text: str, name: str) -> TokenizerDefinition:
    """Reads the JSON of a tokenizer; `name` is the file to blame.

    Raises ModelError where it is not such JSON.
    """
    try:
        return TokenizerDefinition.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ModelError(f"{name}: {place + ': ' if place else ''}{first['msg']}") from error
