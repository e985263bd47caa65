"""The command `octavo`: from a command line to an exit code, whatever ends the process."""

# Ctrl-C may come while modules are imported: all but these two are, once it is waited for.
import os
import sys


def run() -> None:
    """The process's entry. It ends without waiting for a thread whose work nobody needs any more."""
    code = main()
    os._exit(_closed(code))


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code of the command, or 130 where Ctrl-C ended it."""
    try:
        from server.exit_signals import exit_on_signals  # noqa: PLC0415

        with exit_on_signals():
            from server.commands import run_command  # noqa: PLC0415

            return run_command(arguments)
    except KeyboardInterrupt:
        import signal  # noqa: PLC0415

        print("octavo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _closed(code: int) -> int:
    """The exit code, once everything is written: another one where it cannot be."""
    import logging  # noqa: PLC0415

    from server.standard_output import OutputError, ReaderLeft, standard_output  # noqa: PLC0415

    logging.shutdown()
    if sys.stdout is None:
        return code
    try:
        with standard_output():
            return code
    except ReaderLeft:
        return code
    except OutputError as error:
        print(f"octavo: {error}", file=sys.stderr)
        return code or 1
