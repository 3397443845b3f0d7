"""Stored notebooks can be published: run once in order, clean, small, and readable as a page."""

import base64

import nbformat
import pytest
from clean import FIGURE_LIMIT, NOTEBOOK_LIMIT, complaints
from execute import BOOK, METADATA, find_twins
from nbformat.v4 import new_code_cell, new_notebook, new_output

NOTEBOOKS = [twin.with_suffix(".ipynb") for twin in find_twins(BOOK)]
each_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=[str(path.relative_to(BOOK).with_suffix("")) for path in NOTEBOOKS]
)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def visible_code(notebook):
    """The lines of code a reader sees without unfolding anything, for each cell."""
    in_solution = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            begin, end = cell.source.rfind("{solution-start}"), cell.source.rfind("{solution-end}")
            in_solution = begin > end if begin != end else in_solution
        elif not in_solution and not {"hide-input", "hide-cell", "remove-input", "remove-cell"} & set(
            cell.metadata.get("tags", [])
        ):
            yield [line for line in cell.source.splitlines() if line.strip()]


@each_notebook
def test_outputs_are_clean(path):
    assert complaints(read(path)) == []


@each_notebook
def test_execution_counts_run_in_order(path):
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@each_notebook
def test_metadata_are_fixed_and_minimal(path):
    notebook = read(path)
    assert notebook.metadata == METADATA
    assert all(cell.metadata.keys() <= {"tags", "mystnb"} for cell in notebook.cells)


@each_notebook
def test_code_is_short(path):
    notebook = read(path)
    assert max(len(cell.source.splitlines()) for cell in code_cells(notebook)) <= 20
    lengths = [len(lines) for lines in visible_code(notebook)]
    assert sum(lengths) <= 100
    assert sum(length > 12 for length in lengths) <= max(1, len(lengths) // 5)


@each_notebook
def test_figures_have_an_alternative_text(path):
    missing = [
        cell.id
        for cell in code_cells(read(path))
        if any(mime.startswith("image/") for output in cell.outputs for mime in output.get("data", {}))
        and not cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
    ]
    assert missing == []


def notebook_with(output, **metadata):
    return new_notebook(cells=[new_code_cell("…", outputs=[output], metadata=metadata)])


def printed(text):
    return new_output("stream", name="stdout", text=text)


def shown(text, mime="text/plain"):
    return new_output("display_data", data={mime: text})


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (new_output("stream", name="stderr", text="ooh"), "stderr: ooh"),
        (new_output("error", ename="ValueError", evalue="ooh"), "an error: ValueError"),
        (printed("UserWarning: ooh"), "a warning"),
        (printed(" 40%|████      | 2/5 [00:01<00:02,  1.87it/s]"), "a progress bar"),
        (printed("1 of 2\r2 of 2\n"), "a progress bar"),
        (shown("<Axes: xlabel='x'>"), "an object's repr"),
        (shown("Text(0.5, 1.0, 'T')"), "an object's repr"),
        (shown("[<matplotlib.lines.Line2D at 0x7f2a10b3c6d0>]"), "an object's repr"),
        (shown("<pandas.io.formats.style.Styler at 0x7f2a10b3c6d0>"), "an object's repr"),
        (printed("read from /data/reader/flip-flop.csv"), "an absolute path"),
        (shown("<a href='/srv/book/page'>page</a>", "text/html"), "an absolute path"),
        (printed(r"read from C:\data\reader"), "an absolute path"),
        (printed("finished at 12:30:01"), "a time stamp"),
        (printed("trained on 2024-02-29"), "a time stamp"),
        (shown("{}", "application/vnd.jupyter.widget-view+json"), "a widget"),
        (shown(base64.b64encode(bytes(FIGURE_LIMIT + 1)).decode(), "image/png"), "a figure of 200,001"),
        (
            shown(
                f"<img src='data:image/png;base64,{base64.b64encode(bytes(FIGURE_LIMIT + 1)).decode()}'>", "text/html"
            ),
            "a figure of 200,001",
        ),
        (printed("x" * NOTEBOOK_LIMIT), "the notebook has 1,000,"),
    ],
)
def test_an_unclean_output_is_named(output, fault):
    assert any(fault in complaint for complaint in complaints(notebook_with(output)))


@pytest.mark.parametrize(
    "output",
    [
        printed("rank 64, gap 0.036, ΔFVU 12.3 %, ratio 1/2, RR/CR/CC, 3.1e-16, tasks/flip-flop.csv"),
        printed("https://example.org/a/b"),
        shown("<table><tr><td>1</td></tr></table><br/>", "text/html"),
        shown("<img src='data:image/png;base64,iVBO/abc/def=='>", "text/html"),
        shown("<Figure size 640x480 with 1 Axes>"),
        shown(base64.b64encode(bytes(FIGURE_LIMIT)).decode(), "image/png"),
    ],
)
def test_a_clean_output_is_not(output):
    assert complaints(notebook_with(output)) == []


def test_a_cell_may_raise_if_it_says_so():
    error = new_output("error", ename="ValueError", evalue="ooh")
    assert complaints(notebook_with(error, tags=["raises-exception"])) == []
