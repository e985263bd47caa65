"""The table of flags in README.md, made from the table in the code.

python -m tests.support.readme      writes it into README.md
"""

from pathlib import Path

from server.flags import SERVE_FLAGS, Flag

README = Path(__file__).parent.parent.parent / "README.md"
BEGIN, END = "<!-- flags: begin -->\n", "<!-- flags: end -->\n"


def flag_table() -> str:
    rows = [_row(flag) for group in SERVE_FLAGS for flag in group.flags]
    return "\n".join(["| flag | what it does | default |", "|---|---|---|", *rows, ""])


def table_in(text: str) -> str:
    """The table that a README holds."""
    return text.partition(BEGIN)[2].partition(END)[0]


def with_table(text: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}{flag_table()}{end}{after}"


def _row(flag: Flag) -> str:
    cells = (f"`{flag.usage}`", flag.help, flag.default_text)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
