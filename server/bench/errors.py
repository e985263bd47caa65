"""Errors of measuring a server.

BenchError          nothing can be measured: a wrong address, no model, no place to write
RequestFailed       one request failed; `kind` groups such failures in a report
"""

LONGEST_LINE = 200  # characters, before escapes


def one_line(text: str) -> str:
    """The beginning of `text`, spaces for its line breaks and escapes for what no terminal can print."""
    line = " ".join(text.split())[:LONGEST_LINE]
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class BenchError(Exception):
    """Nothing can be measured; the message is one line."""


class RequestFailed(Exception):
    """One request got no whole answer.

    `kind` is one of: connect, timeout, http STATUS, error event, cut, no stream,
    bad chunk, no text, too short. `detail` may be what a server says: it becomes one line.
    """

    def __init__(self, kind: str, detail: str) -> None:
        detail = one_line(detail)
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
