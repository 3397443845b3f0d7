"""What a stored notebook may contain: `complaints` is asked before storing and again by the tests."""

import base64
import re
from collections.abc import Iterator

import nbformat

KERNEL_ENVIRONMENT = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONWARNINGS": "",  # Python's own filters, whatever the caller's shell has set
    "TQDM_DISABLE": "1",
    "OMP_NUM_THREADS": "1",  # a page has one core; with more, pages that run side by side wait for each other
    "OPENBLAS_NUM_THREADS": "1",
}

FIGURE_LIMIT = 200_000  # bytes
NOTEBOOK_LIMIT = 1_000_000  # bytes

EMBEDDED = re.compile(r"data:[\w/+-]+;base64,([\w/+=]+)")

UNCLEAN = {
    "a warning": re.compile(r"\b[A-Z]\w*Warning\b"),
    "a progress bar": re.compile(r"\d%\||\d ?it/s|\r(?!\n)"),
    "an object's repr": re.compile(r"<(?:Axes|matplotlib\.)|\bText\(|\bat 0x[0-9a-f]+"),
    # Two components after a leading slash; not a closing tag, a quotient, a relative path or a web address.
    "an absolute path": re.compile(r"(?<![\w.:/<>~+,)\]}*])/[\w.-]+/[\w.-]+|\b[A-Za-z]:\\\w"),
    "a time stamp": re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b"),
}


def complaints(notebook: nbformat.NotebookNode) -> list[str]:
    """Name everything in a notebook's outputs that must not be published.

    Parameters
    ----------
    notebook : NotebookNode
        An executed notebook.

    Returns
    -------
    list of str
        One line a fault, with the cell's number among all cells (from 1); empty for a clean notebook.
    """
    found = [
        f"cell {number}: {fault}"
        for number, cell in enumerate(notebook.cells, start=1)
        for output in cell.get("outputs", [])
        for fault in _faults(output, may_raise="raises-exception" in cell.metadata.get("tags", []))
    ]
    size = len(nbformat.writes(notebook).encode())
    if size > NOTEBOOK_LIMIT:
        found.append(f"the notebook has {size:,} bytes, more than {NOTEBOOK_LIMIT:,}")
    return found


def _faults(output: nbformat.NotebookNode, may_raise: bool) -> Iterator[str]:
    if output.get("name") == "stderr":
        yield f"stderr: {output.text.strip()[:200]}"
        return
    if output.output_type == "error" and not may_raise:
        yield f"an error: {output.ename}"
    for mime, content in output.get("data", {}).items():
        if mime.startswith("application/vnd.jupyter.widget"):
            yield "a widget, which shows nothing without a kernel"
        for picture in _pictures(mime, content):
            size = len(base64.b64decode(picture))
            if size > FIGURE_LIMIT:
                yield f"a figure of {size:,} bytes, more than {FIGURE_LIMIT:,}"
    for text in _texts(output):
        for what, pattern in UNCLEAN.items():
            if match := pattern.search(text):
                yield f"{what}: {text[max(match.start() - 20, 0) : match.end() + 40].strip()!r}"


def _pictures(mime: str, content) -> list[str]:
    """An output's pictures in base64, those in HTML as well."""
    if mime.startswith("image/") and mime != "image/svg+xml":
        return [content]
    return EMBEDDED.findall(content) if mime == "text/html" else []


def _texts(output: nbformat.NotebookNode) -> Iterator[str]:
    """The output's texts as the reader sees them; encoded images are not text."""
    yield output.get("text", "")
    yield "\n".join(output.get("traceback", []))
    for mime, content in output.get("data", {}).items():
        if isinstance(content, str) and (not mime.startswith("image/") or mime == "image/svg+xml"):
            yield EMBEDDED.sub("", content)
