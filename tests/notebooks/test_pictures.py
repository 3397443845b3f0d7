"""Pictures outside the notebooks are figures that a notebook has drawn."""

import pytest
from pictures import BOOK, PICTURES, figure


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_is_the_figure_of_its_notebook(picture):
    notebook, name = PICTURES[picture]
    assert (BOOK / "_static" / picture).read_bytes() == figure(BOOK / notebook, name), "run `make execute`"
