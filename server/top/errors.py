"""Why a server cannot be watched."""


class WatchError(Exception):
    """The message is one line, for whoever called `octavo top`."""
