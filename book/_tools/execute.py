"""Execute the text twins and store the notebooks, so that a second run changes no byte.

python book/_tools/execute.py                          all pages
python book/_tools/execute.py book/tasks/flip-flop.md  some pages
python book/_tools/execute.py --check                  write nothing, name what would change
"""

import argparse
import base64
import copy
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from clean import KERNEL_ENVIRONMENT, complaints
from jupytext.config import load_jupytext_config
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError

BOOK = Path(__file__).resolve().parents[1]
CELL_TIMEOUT = 600  # seconds

# Without the Python version and the kernel's display name, which differ between machines.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}

HEADER_NAMES_KERNEL = re.compile(r"\A---\n(?:(?!---\n).*\n)*kernelspec:")


class PageError(Exception):
    """A page that cannot be stored; the message names the cell and the reason."""


def find_twins(book: Path) -> list[Path]:
    """List a book's text twins: the pages whose header names a kernel.

    Parameters
    ----------
    book : Path
        The folder that holds the pages. Folders whose names start with ``.`` or ``_`` hold none.

    Returns
    -------
    list of Path
    """
    return [
        path
        for path in sorted(book.rglob("*.md"))
        if not any(part.startswith((".", "_")) for part in path.relative_to(book).parts)
        and HEADER_NAMES_KERNEL.match(path.read_text(encoding="utf-8"))
    ]


def read_twin(twin: Path) -> nbformat.NotebookNode:
    """Read a text twin as the notebook it stands for, not yet executed.

    Parameters
    ----------
    twin : Path
        A MyST page with code.

    Returns
    -------
    NotebookNode
        Its metadata and cell ids depend on the text alone.
    """
    notebook = jupytext.read(twin, config=load_jupytext_config(str(twin)))
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02}"
    # As it will be read back from its file, where the keys of metadata are sorted.
    return nbformat.reads(nbformat.writes(notebook), as_version=4)


def twin_text(notebook: nbformat.NotebookNode, twin: Path) -> str:
    """Write a notebook as the text of its twin.

    Parameters
    ----------
    notebook : NotebookNode
    twin : Path
        Where the twin stands: the pairing's options are those of the nearest ``jupytext.toml``.

    Returns
    -------
    str
    """
    return jupytext.writes(notebook, fmt="md:myst", config=load_jupytext_config(str(twin)))


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook in order in a fresh kernel.

    Parameters
    ----------
    notebook : NotebookNode
        Filled with outputs in place.
    folder : Path
        Where the kernel runs.

    Returns
    -------
    NotebookNode
        The same notebook.

    Raises
    ------
    PageError
        If a cell fails or runs out of time, or an output is not fit to be published.
    """
    started = []
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name=METADATA["kernelspec"]["name"],
        record_timing=False,
        on_cell_start=lambda cell, cell_index: started.append(cell_index + 1),
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        # The kernel's stderr holds its remarks on its own transport; a cell's stderr is an output.
        client.execute(env=os.environ | KERNEL_ENVIRONMENT, stderr=subprocess.DEVNULL)
    except (CellControlSignal, DeadKernelError) as error:
        raise PageError(f"cell {started[-1]} failed\n{error}") from error
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_stripped(output) for output in _merged_streams(cell.outputs)]
    if faults := complaints(notebook):
        raise PageError("not fit to be published:\n" + "\n".join(f"  {fault}" for fault in faults))
    return notebook


def _merged_streams(outputs: list) -> list:
    """Join what one stream printed in a row: how it came in pieces is the clock's doing."""
    merged = []
    for output in outputs:
        if merged and output.output_type == "stream" and output.get("name") == merged[-1].get("name"):
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def _stripped(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take from a figure what names the program that drew it."""
    if image := output.get("data", {}).get("image/png"):
        output.data["image/png"] = base64.b64encode(strip_png(base64.b64decode(image))).decode()
    return output


def strip_png(png: bytes) -> bytes:
    """Remove a PNG's text and time chunks.

    Parameters
    ----------
    png : bytes

    Returns
    -------
    bytes
        The same picture, without the software's version.
    """
    kept, position = [png[:8]], 8
    while position < len(png):
        end = position + 12 + int.from_bytes(png[position : position + 4], "big")
        if png[position + 4 : position + 8] not in (b"tEXt", b"iTXt", b"zTXt", b"tIME"):
            kept.append(png[position:end])
        position = end
    return b"".join(kept)


def update(twin: Path, check: bool) -> bool:
    """Execute one page and store its notebook.

    Parameters
    ----------
    twin : Path
    check : bool
        Write nothing.

    Returns
    -------
    bool
        Whether the twin or the notebook changed (with `check`: would change).

    Raises
    ------
    PageError
        As `execute` does; the stored notebook is then untouched.
    """
    notebook = read_twin(twin)
    # Before executing, which takes long enough for the author to go on writing.
    changed = _store(twin, twin_text(notebook, twin), check)
    stored = twin.with_suffix(".ipynb")
    execute(notebook, twin.parent)
    if stored.exists() and _fixed_part(nbformat.read(stored, as_version=4)) == _fixed_part(notebook):
        return changed
    return _store(stored, nbformat.writes(notebook) + "\n", check) or changed


def _fixed_part(notebook: nbformat.NotebookNode) -> str:
    """A notebook without the outputs that differ in every run, such as timings."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            cell.outputs = []
    return nbformat.writes(notebook)


def _store(path: Path, text: str, check: bool) -> bool:
    """Write a file at once or not at all; tell whether its content is new."""
    if path.exists() and path.read_bytes() == text.encode():
        return False
    if not check:
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(text.encode())
        draft.replace(path)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="text twins or their notebooks (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if anything would change")
    options = parser.parse_args()

    changed = False
    for twin in [page.resolve().with_suffix(".md") for page in options.pages] or find_twins(BOOK):
        name, start = os.path.relpath(twin), time.perf_counter()
        print(f"{name} … ", end="", flush=True)
        try:
            news = update(twin, options.check)
        except PageError as error:
            print(f"FAILED\n{name}, {error}")
            return 1
        status = "unchanged" if not news else "would change" if options.check else "stored"
        print(f"{status}, {time.perf_counter() - start:.1f} s")
        changed |= news
    return int(options.check and changed)


if __name__ == "__main__":
    sys.exit(main())
