"""One browser for all tests of the page."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, chromium


@pytest.fixture(scope="session")
def chromium_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium_browser: Browser) -> Browser:
    """A desktop window on an empty page, with nothing kept."""
    chromium_browser.reset()
    return chromium_browser
