"""A page's text twin and its notebook say the same; `jupytext --test` would pass a stale pair."""

import nbformat
import pytest
from execute import BOOK, find_twins, read_twin, twin_text
from jupytext.compare import compare_notebooks

TWINS = find_twins(BOOK)
each_pair = pytest.mark.parametrize("twin", TWINS, ids=[str(twin.relative_to(BOOK).with_suffix("")) for twin in TWINS])


def stored(twin):
    return nbformat.read(twin.with_suffix(".ipynb"), as_version=4)


def test_the_book_has_pairs():
    assert TWINS


def test_every_notebook_has_a_twin_and_every_twin_a_notebook():
    notebooks = {path for path in BOOK.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert notebooks == {twin.with_suffix(".ipynb") for twin in TWINS}


@each_pair
def test_the_notebook_gives_the_twin(twin):
    assert twin_text(stored(twin), twin) == twin.read_bytes().decode()


@each_pair
def test_the_twin_gives_the_notebook(twin):
    read, notebook = read_twin(twin), stored(twin)
    compare_notebooks(notebook, read, fmt="md:myst", allow_expected_differences=False, compare_ids=True)
    assert [(cell.cell_type, cell.id, cell.source, cell.metadata) for cell in notebook.cells] == [
        (cell.cell_type, cell.id, cell.source, cell.metadata) for cell in read.cells
    ]
