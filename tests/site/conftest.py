"""The built site, parsed once, for the tests in this folder."""

import os
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def absent():
    """Skip what needs something that is not here, or fail where its presence was promised."""

    def report(reason, required):
        (pytest.fail if required else pytest.skip)(reason)

    return report


@pytest.fixture(scope="session")
def site(absent):
    folder = Path(os.environ.get("TASKSYM_SITE", ROOT / "_build/html"))
    if not (folder / "index.html").exists():
        absent(f"no site at {folder}: run `make book` first", os.environ.get("TASKSYM_REQUIRE_SITE") == "1")
    return folder.resolve()


@pytest.fixture(scope="session")
def pages(site):
    """Address within the site -> parsed page. The theme leaves templates, which are no pages, in _static."""
    paths = [path.relative_to(site) for path in sorted(site.rglob("*.html"))]
    return {
        path.as_posix(): BeautifulSoup((site / path).read_text(encoding="utf8"), "html.parser")
        for path in paths
        if not path.parts[0].startswith("_")
    }
