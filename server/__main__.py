"""`python -m server` does the same as `octavo`."""

from server.cli import run

if __name__ == "__main__":
    run()
