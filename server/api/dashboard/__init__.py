"""The live view: a page for browsers, and the stream of snapshots that feeds it."""
