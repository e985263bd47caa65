"""The key that a bench sends."""

import os

from server.flag_reading import API_KEY_VARIABLE, key_to_send

SHOWN_DEFAULT = f"the environment variable {API_KEY_VARIABLE}"


def client_key(given: str | None) -> str | None:
    """`given`, or else what the environment says, as for `octavo top`. Raises FlagError."""
    return key_to_send(given, os.environ)
