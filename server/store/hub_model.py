"""Models of the Hugging Face hub, kept in the hub's own cache."""

from pathlib import Path

import httpx2
from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from engine.errors import ModelError

_WANTED = ("*.json", "*.jinja", "*.safetensors")


def fetch_from_hub(repository: str) -> Path:
    """The folder of a repository's files, fetched where they are not in the cache yet.

    Raises ModelError in one line.
    """
    try:
        return Path(snapshot_download(repository, allow_patterns=list(_WANTED)))
    except GatedRepoError as error:
        raise ModelError(f"{repository}: the hub asks for a licence or a login first") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"{repository}: no such repository on the Hugging Face hub") from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"{repository}: the Hugging Face hub is out of reach, and no copy is on this machine"
        ) from error
    except (httpx2.HTTPError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{repository}: cannot be fetched from the hub: {reason}") from error
