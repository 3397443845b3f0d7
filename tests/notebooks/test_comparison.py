"""What counts as the same output: by boundary cases, by properties, and by figures that are really drawn."""

import base64
import io
from decimal import Decimal

import numpy as np
import pytest
from compare import MOVED, compare_json, compare_markup, compare_outputs, compare_png, compare_text, moved_pixels
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from nbformat.v4 import new_output
from PIL import Image

SAME = [
    ("0.812", "0.812"),
    ("0.812", "0.813"),
    ("0.3", "0.2"),  # as floats they differ by more than 0.1
    ("9.99", "10.00"),
    ("9.97", "10.0"),
    ("0.100", "0.0999"),
    ("-0.000", "0.000"),
    ("−0.001", "0.000"),
    ("[ 0.12 -0.50]", "[ 0.12 -0.51]"),
    ("[-0.00  0.50]", "[ 0.00  0.50]"),
    ("0.92+0.00j", "0.92-0.00j"),
    ("1.23e-05", "1.24e-05"),
    ("1.23e−05", "1.22e-05"),
    ("1.00e-05", "9.97e-06"),
    ("3.1e-16", "2.2e-16"),
    ("3.1e-16", "-2.2e-16"),
    ("0.0e+00", "2.2e-16"),
    ("1,234.5", "1,234.4"),
    ("12.3 %", "12.4 %"),
    ("took 0.12s", "took 0.13s"),
    ("nan inf –", "nan inf –"),
    ("a   0.50\nb   1.25", "a  0.50 \nb  1.25\n"),
]

DIFFERENT = [
    ("0.812", "0.814"),
    ("0.812", "0.810"),
    ("0.001", "-0.001"),
    ("0.50", "-0.50"),
    ("64", "65"),
    ("64 units", "64 unit"),
    ("1.", "2."),  # how numpy prints whole numbers
    ("1", "1.1"),
    ("0.5", "0.453"),
    ("9.89", "10.0"),
    ("1.23e-05", "1.25e-05"),
    ("1.23e-05", "1.23e-04"),
    ("1.00e-05", "9.89e-06"),
    ("1.0e-11", "3.1e-16"),
    ("0.000", "3.1e-03"),
    ("1,234", "1,235"),
    ("12.3 %", "12.3"),
    ("nan", "0.5"),
    ("inf", "-inf"),
    ("–", "0.00"),
    ("1.2.3", "1.2.4"),
    ("W2", "W3"),
    ("RR 0.50", "CR 0.50"),
    ("0.50 0.50", "0.50"),
    ("0.50\n0.50", "0.50 0.50"),
    ("0.50\n", ""),
]


@pytest.mark.parametrize(("stored", "fresh"), SAME)
def test_same_text(stored, fresh):
    assert compare_text(stored, fresh) == []
    assert compare_text(fresh, stored) == []


@pytest.mark.parametrize(("stored", "fresh"), DIFFERENT)
def test_different_text(stored, fresh):
    assert compare_text(stored, fresh)
    assert compare_text(fresh, stored)


def test_a_difference_is_readable():
    assert compare_text("a\nFVU 0.812", "a\nFVU 0.814") == [
        "line 2: 0.812 was stored, 0.814 came out, allowed is ±0.001"
    ]


@given(st.integers(-(10**9), 10**9), st.integers(1, 6), st.integers(-3, 3), st.sampled_from(["{}", "x={} s", "[{}]"]))
def test_fixed_decimals_differ_by_at_most_one_unit(units, decimals, step, sentence):
    stored, fresh = (sentence.format(f"{Decimal(n).scaleb(-decimals):.{decimals}f}") for n in (units, units + step))
    assert (compare_text(stored, fresh) == []) == (abs(step) <= 1)


@given(st.integers(1003, 9996), st.integers(-300, 300), st.integers(-3, 3))
def test_scientific_notation_differs_by_at_most_one_unit_above_the_floor(digits, exponent, step):
    stored, fresh = (f"{Decimal(n).scaleb(exponent):.3e}" for n in (digits, digits + step))
    within = abs(step) <= 1 or Decimal(abs(step)).scaleb(exponent) <= Decimal("1e-12")
    assert (compare_text(stored, fresh) == []) == within


@given(st.text())
def test_any_text_equals_itself(text):
    assert compare_text(text, text) == []
    assert compare_markup(text, text) == []


@given(st.integers(), st.integers())
def test_integers_must_be_equal(stored, fresh):
    assert (compare_text(str(stored), str(fresh)) == []) == (stored == fresh)


TABLE = "<table>\n<tr><th>seed</th><th>FVU</th></tr>\n<tr><td>100</td> <td>0.812</td></tr></table>"


@pytest.mark.parametrize(
    ("old", "new", "differences"),
    [
        ("0.812", " 0.813\n", []),
        ("0.812", "0.814", ["row 2 cell 2, line 1: 0.812 was stored, 0.814 came out, allowed is ±0.001"]),
        ("100", "101", ["row 2 cell 1, line 1: 100 was stored, 101 came out, allowed is ±0"]),
        ("<td>100</td>", "<th>100</th>", None),
        ("<td>0.812</td>", "", None),
        ("0.812", "", None),
        ("<td>100", "<td class='refused'>100", None),
    ],
)
def test_tables(old, new, differences):
    found = compare_markup(TABLE, TABLE.replace(old, new))
    assert found == differences if differences is not None else found


@pytest.mark.parametrize(
    ("fresh", "same"),
    [
        ({"gap": [0.813, 4], "name": "T"}, True),
        ({"gap": [0.814, 4], "name": "T"}, False),
        ({"gap": [0.812, 5], "name": "T"}, False),
        ({"gap": [0.812, 4], "name": "Q"}, False),
        ({"gap": [0.812], "name": "T"}, False),
        ({"gap": [0.812, 4]}, False),
        ({"gap": [], "name": "T"}, False),
    ],
)
def test_json(fresh, same):
    assert (compare_json({"gap": [0.812, 4], "name": "T"}, fresh) == []) == same


HELLO, RESULT = (
    new_output("stream", name="stdout", text="0.50\n"),
    new_output("execute_result", data={"text/plain": "0.50", "text/html": "<b>0.50</b>"}),
)


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ([], [HELLO]),
        ([HELLO], []),
        ([HELLO], [HELLO, RESULT]),
        ([HELLO, RESULT], [RESULT, HELLO]),
        ([HELLO], [new_output("stream", name="stderr", text="0.50\n")]),
        ([RESULT], [new_output("display_data", data=RESULT.data)]),
        ([RESULT], [new_output("execute_result", data={"text/plain": "0.50"})]),
        ([RESULT], [new_output("execute_result", data={"text/plain": "0.50", "text/html": "<i>0.50</i>"})]),
    ],
)
def test_outputs_agree_in_number_kind_and_order(stored, fresh):
    assert compare_outputs(stored, stored) == []
    assert compare_outputs(stored, fresh)


def draw(change=0.0, move=0.0, size=4, alpha=1.0):
    """24 points at 144 dpi: all changed by a relative amount, one moved by a share of the axis."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 24)) * (1 + change * rng.normal(size=(2, 24)))
    y[7] += move if y[7] < 0.5 else -move
    figure = Figure(figsize=(6, 4), dpi=144)
    axes = figure.add_subplot(xlim=(-0.1, 1.1), ylim=(-0.1, 1.1), xlabel="gap", ylabel="ΔFVU")
    axes.plot(x, y, "o", markersize=size, alpha=alpha)
    axes.axhline(y.mean(), linewidth=1)
    png = io.BytesIO()
    figure.savefig(png, bbox_inches="tight")
    return Image.open(png).convert("RGBA")


def encoded(image, **options):
    png = io.BytesIO()
    image.save(png, format="PNG", **options)
    return base64.b64encode(png.getvalue()).decode()


@pytest.mark.parametrize("change", [0.0, 1e-5, 1e-4])
@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_a_figure_of_nearly_the_same_data_is_the_same(change, alpha):
    assert np.count_nonzero(moved_pixels(draw(alpha=alpha), draw(change, alpha=alpha))) == 0


@pytest.mark.parametrize(
    ("move", "size", "alpha"), [(0.05, 4, 1.0), (0.02, 4, 1.0), (0.05, 4, 0.4), (0.05, 2, 1.0), (0.05, 2, 0.4)]
)
def test_a_figure_with_one_of_24_points_moved_is_not(move, size, alpha):
    moved = moved_pixels(draw(size=size, alpha=alpha), draw(move=move, size=size, alpha=alpha))
    assert np.count_nonzero(moved) > 2 * MOVED
    assert "pixels moved" in compare_png(encoded(draw(size=size)), encoded(draw(move=move, size=size)))[0]


def test_a_figure_encoded_anew_is_the_same():
    assert compare_png(encoded(draw(), compress_level=9), encoded(draw(), compress_level=1, optimize=True)) == []


def test_a_figure_with_jittered_edges_is_the_same():
    image = draw()
    pixels = np.asarray(image).astype(int)
    noise = np.random.default_rng(0).integers(-20, 21, size=pixels.shape)
    jittered = Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))
    assert compare_png(encoded(image), encoded(jittered)) == []


def test_figures_of_different_size_differ():
    assert (
        "× 300 pixels were stored"
        in compare_png(encoded(Image.new("RGBA", (400, 300))), encoded(Image.new("RGBA", (400, 301))))[0]
    )


def test_a_patch_of_another_colour_differs():
    image = Image.new("RGBA", (400, 300), "white")
    patched = image.copy()
    patched.paste((255, 255, 200, 255), (100, 100, 110, 110))
    assert compare_png(encoded(image), encoded(patched)) == [
        "100 pixels moved or changed colour, around (104, 104); allowed are 25"
    ]


def test_a_picture_in_markup_is_compared_as_a_picture():
    def page(image, alt="two points", **options):
        return f'<p>0.50<img alt="{alt}" src="data:image/png;base64,{encoded(image, **options)}"></p>'

    page_now = page(draw(), compress_level=9)
    assert compare_markup(page_now, page(draw(1e-5), compress_level=1)) == []
    assert "pixels moved" in compare_markup(page_now, page(draw(move=0.05)))[0]
    assert "no points" in compare_markup(page_now, page(draw(), alt="no points"))[0]
    assert compare_markup(page_now, "<p>0.50<img alt='two points' src='points.png'></p>")
