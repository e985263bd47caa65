"""The version of the installed distribution."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


def version() -> str:
    """As installed; "unknown" where the sources are run without being installed."""
    try:
        return installed_version("octavo")
    except PackageNotFoundError:
        return "unknown"
