"""The site as a browser shows it: typeset, complete, without an error, and no wider than a telephone."""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run --disable-quic"
).split()
# Other hosts cannot be reached, so a page that needs one shows it by a failed request.
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
# Maths in prose that MathJax left alone, or could not read.
UNTYPESET = r"""() => {
  const article = document.querySelector("article")?.cloneNode(true);
  article?.querySelectorAll("pre, code, script, style, mjx-assistive-mml").forEach(node => node.remove());
  const raw = article?.textContent.match(/\\[(\[].{0,40}/g) ?? [];
  return [...raw, ...[...document.querySelectorAll("mjx-merror")].map(node => node.textContent)];
}"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def browser(absent):
    path = os.environ.get("TASKSYM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        required = os.environ.get("TASKSYM_REQUIRE_BROWSER") == "1" or os.environ.get("CI") == "true"
        absent(f"no browser: install one of {', '.join(NAMES)} or set TASKSYM_CHROMIUM", required)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, OFFLINE])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def folder(site):
    return site.as_uri()


@pytest.fixture(params=["server", "folder"])
def base(request):
    """Where pages are read from. Whoever downloads the site opens its files without a server."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def tab(browser, base):
    """A tab, and the list of what went wrong in it."""
    faults, own = [], (base, "data:", "blob:")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.on("request", lambda r: r.url.startswith(own) or faults.append(("external", r.url)))
    context.on("requestfailed", lambda r: faults.append(("failed", r.url)))
    context.on("response", lambda r: r.status < 400 or faults.append((r.status, r.url)))
    context.on("console", lambda m: m.type != "error" or faults.append((m.page.url, m.text)))
    context.on("weberror", lambda e: faults.append((e.page.url, str(e.error))))
    yield context.new_page(), faults
    context.close()


def test_pages_load_and_fit(tab, base, pages):
    tab, faults = tab
    for name, page in pages.items():
        if name == "index.html":  # it sends the reader on at once; see below
            continue
        tab.set_viewport_size({"width": 1280, "height": 800})
        tab.emulate_media(color_scheme="light")
        tab.goto(f"{base}/{name}")
        tab.evaluate("window.MathJax?.startup?.promise")
        if page.select("article .math"):
            if not tab.locator("mjx-container").count():
                faults.append((name, "no maths typeset"))
            faults += [(name, "not typeset", text) for text in tab.evaluate(UNTYPESET)]
        tab.set_viewport_size({"width": 390, "height": 800})
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            if excess := tab.evaluate(OVERFLOW):
                faults.append((name, scheme, f"{excess} px too wide"))
    assert faults == []


def test_the_bare_address_leads_to_the_book(tab, base):
    tab, _ = tab
    tab.goto(f"{base}/index.html", wait_until="commit")
    tab.wait_for_url(f"{base}/book/index.html")


# Opened from a folder, a page may not read the others for its list of results.
@pytest.mark.parametrize("base", ["server"], indirect=True)
def test_search_finds_a_word(tab, base, pages):
    tab, faults = tab
    word = max(pages["book/index.html"].select_one("article h1").text.split(), key=len).strip("?!.,:#¶")
    tab.goto(f"{base}/search.html?q={word}")
    tab.locator("#search-results li a").first.wait_for()
    assert faults == []
