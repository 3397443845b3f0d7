"""What can be read off the built files: nothing is missing, nothing comes from elsewhere, nothing leaks."""

import re
import tempfile
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import yaml

ROOT = Path(__file__).parents[2]
EXTERNAL = re.compile(r"\s*(?:https?:)?//")
EXTERNAL_IN_CSS = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)"';]*""")
EXTERNAL_IN_SCRIPT = re.compile(r"""(?:\bimport\b|\bfrom\b|\bfetch|require)\W{1,3}(?:https?:)?//[^"']*""")
MACHINE = re.compile(
    r"(?<![\w.:/~-])/(?:home|Users|root)/\w|\b[A-Z]:\\Users|"
    + "|".join(re.escape(str(Path(path).resolve()) + "/") for path in (ROOT, tempfile.gettempdir()))
)
LEFTOVER = re.compile(r"^:::|```|\{[a-z:-]+\}`", re.MULTILINE)


def prose(page):
    """The text of a page outside code and scripts."""
    skipped = {"pre", "code", "script", "style"}
    strings = page.find_all(string=lambda text: not skipped & {parent.name for parent in text.parents})
    return "\n".join(strings)


def loads(page):
    """Addresses that a browser fetches by itself when it opens the page."""
    for tag in page.select("[src]:not(a), link[href], object[data], [srcset], use[href]"):
        if not {"canonical", "license", "next", "prev"} & set(tag.get("rel", ())):
            yield tag.get("src") or tag.get("srcset") or tag.get("data") or tag["href"]


def test_every_page_of_the_table_of_contents_is_built(pages):
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    listed = [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]
    assert [page for page in listed if f"{page}.html" not in pages] == []


def test_nothing_is_loaded_from_another_host(site, pages):
    found = {}
    for name, page in pages.items():
        found[name] = [address for address in loads(page) if EXTERNAL.match(address)]
        for tag in page.select("style, script, [style]"):
            found[name] += EXTERNAL_IN_CSS.findall(tag.get("style", tag.text))
            found[name] += EXTERNAL_IN_SCRIPT.findall(tag.text)
    for path in site.rglob("*.css"):
        found[path.relative_to(site)] = EXTERNAL_IN_CSS.findall(path.read_text(encoding="utf8"))
    assert {name: addresses for name, addresses in found.items() if addresses} == {}


def test_internal_links_and_fragments_resolve(site, pages):
    anchors = {name: {tag["id"] for tag in page.select("[id]")} for name, page in pages.items()}
    broken = []
    for name, page in pages.items():
        for address in [*(tag["href"] for tag in page.select("a[href]")), *loads(page)]:
            parts = urlsplit(urljoin(f"site:///{name}", address) if not urlsplit(address).scheme else address)
            target = unquote(parts.path).lstrip("/")
            if parts.scheme == "site" and not (
                (site / target).is_file()
                and (not parts.fragment or target not in pages or unquote(parts.fragment) in anchors[target])
            ):
                broken.append((name, address))
    assert broken == []


def test_figures_have_an_alternative_text(pages):
    # Without metadata in its cell, a figure's alternative text is the name of its file.
    images = [(name, image) for name, page in pages.items() for image in page.select("article img")]
    assert [(name, image["src"]) for name, image in images if " " not in image.get("alt", "").strip()] == []


def test_pages_name_no_path_of_a_machine(pages):
    assert [(name, match[0]) for name, page in pages.items() if (match := MACHINE.search(str(page)))] == []


def test_all_markup_was_understood(pages):
    faults = {
        name: [*map(str, page.select(".system-message, .problematic")), *LEFTOVER.findall(prose(page))]
        for name, page in pages.items()
    }
    assert {name: found for name, found in faults.items() if found} == {}


def test_the_mended_markup_stays_mended(pages):
    """The overrides in book/_templates and book/_ext still meet the theme's markup."""
    selectors = {
        ".search-button-field[aria-label]",
        ".theme-switch[title]",
        "summary[aria-label]",
        "th:empty",
        "html:not([lang])",
        "[role=doc-biblioentry]",
        "#pst-primary-sidebar .navbar-brand:not(nav *)",
    }
    assert [(name, css) for name, page in pages.items() for css in selectors if page.select(css)] == []
    assert all(page.select("#main-content, main") for page in pages.values())
