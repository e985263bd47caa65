"""`octavo top`: the live view of a server on a terminal."""
