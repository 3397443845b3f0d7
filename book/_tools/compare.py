"""Compare a cell's stored outputs with fresh ones: numbers by their printed precision, all else exactly.

Every comparison takes the stored form first and returns its differences as readable lines, none if equal.
"""

import base64
import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
from PIL import Image, ImageFilter

# A sign belongs to a number wherever it stands (1+0j, 3-4), but a digit does not if it is part of a name
# (W2) or of a dotted version (1.2.3). Groups of thousands make one number.
NUMBER = re.compile(
    r"(?:[-+−]|(?<![\w.]))"
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+−]?\d{1,3})?"
    r"(?!\.?\d)"
)

# A number in scientific notation that is smaller than this is a zero with its rounding error.
FLOOR = Decimal("1e-12")

# A picture that stands in the markup itself.
EMBEDDED = re.compile(r"data:image/png;base64,([\w/+=]+)")

# A pixel has moved if it differs by more than COLOUR of 255, in some channel, from all pixels at and next to
# its place. So many have, of 24 points in 6 × 4 inches at 144 dpi, when
#   all data change by 1e-5 or 1e-4 of their values: 0 (by 1e-3, which moves a point by two pixels: 42);
#   a marker of size 4 moves by 5 % of the axis: 178 (by 1 %: 86); a fainter one of size 2: 58; of size 1: 42.
# A plain count of differing pixels does not separate: five curves changed by 1e-4 give 96, the moved marker of size
# 2 gives 58 to 74.
COLOUR = 24
MOVED = 25


def compare_outputs(stored: list[dict], fresh: list[dict]) -> list[str]:
    """Compare all outputs of a cell.

    Parameters
    ----------
    stored, fresh : list of dict
        Outputs in the notebook format.

    Returns
    -------
    list of str
        The differences.
    """
    was, now = [_kind(output) for output in stored], [_kind(output) for output in fresh]
    if was != now:
        return [f"stored: {', '.join(was) or 'no output'}; now: {', '.join(now) or 'no output'}"]
    return [
        f"output {number}, {name}, {difference}"
        for number, (old, new) in enumerate(zip(stored, fresh, strict=True), start=1)
        for name, content in _contents(old).items()
        for difference in _comparison(name)(content, _contents(new)[name])
    ]


def _contents(output: dict) -> dict:
    """An output's contents by stream name, field or MIME type."""
    match output["output_type"]:
        case "stream":
            return {output["name"]: output["text"]}
        case "error":
            return {"name": output["ename"], "message": output["evalue"]}
        case _:
            return output["data"]


def _kind(output: dict) -> str:
    return f"{output['output_type']} ({', '.join(sorted(_contents(output)))})"


def _comparison(name: str):
    if name == "image/png":
        return compare_png
    if name in ("text/html", "image/svg+xml"):
        return compare_markup
    if name.endswith("json"):
        return compare_json
    return compare_text


def compare_text(stored: str, fresh: str) -> list[str]:
    """Compare texts line by line: numbers by `allowed`, runs of blanks as one blank, all else exactly."""
    was, now = stored.strip().splitlines(), fresh.strip().splitlines()
    if len(was) != len(now):
        return [f"{len(was)} lines were stored, {len(now)} came out:\n{stored}\n→\n{fresh}"]
    return [
        f"line {number}: {difference}"
        for number, (old, new) in enumerate(zip(was, now, strict=True), start=1)
        for difference in _line_differences(old, new)
    ]


def _line_differences(stored: str, fresh: str) -> list[str]:
    if _words(stored) != _words(fresh):
        return [f"{stored.strip()!r} was stored, {fresh.strip()!r} came out"]
    return [
        f"{old} was stored, {new} came out, allowed is ±{allowed(old, new)}"
        for old, new in zip(NUMBER.findall(stored), NUMBER.findall(fresh), strict=True)
        if abs(_value(old) - _value(new)) > allowed(old, new)
    ]


def _words(line: str) -> list[str]:
    return [" ".join(part.split()) for part in NUMBER.split(line)]


def _value(number: str) -> Decimal:
    """The printed number itself: as a float, 0.3 and 0.2 would not differ by exactly 0.1."""
    return Decimal(number.replace("−", "-").replace(",", ""))


def allowed(stored: str, fresh: str) -> Decimal:
    """By how much two printed numbers may differ.

    Parameters
    ----------
    stored, fresh : str

    Returns
    -------
    Decimal
        Nothing for integers, else one unit of the last printed digit: of the coarser number if both show as
        many significant digits (9.97 and 10.0), of the finer one if not (0.5 and 0.453). In scientific
        notation at least `FLOOR`.
    """
    was, now = (_value(number).as_tuple() for number in (stored, fresh))
    scientific = "e" in (stored + fresh).lower()
    if 0 in (was.exponent, now.exponent) and not scientific:
        return Decimal(0)
    choose = max if len(was.digits) == len(now.digits) else min
    unit = Decimal(1).scaleb(choose(was.exponent, now.exponent))
    return max(unit, FLOOR) if scientific else unit


def compare_markup(stored: str, fresh: str) -> list[str]:
    """Compare HTML or SVG: the same tags in order, texts by `compare_text`, pictures by `compare_png`."""
    was, now = _Pieces.of(stored), _Pieces.of(fresh)
    for (place, old), (_, new) in zip(was, now, strict=False):
        if (old[0] == "<") != (new[0] == "<"):
            return [f"{place}: {old!r} was stored, {new!r} came out"]
    if len(was) != len(now):
        return [f"{len(was)} tags and texts were stored, {len(now)} came out"]
    return [
        f"{place}, {difference}"
        for (place, old), (_, new) in zip(was, now, strict=True)
        for difference in _piece_differences(old, new)
    ]


def _piece_differences(stored: str, fresh: str) -> list[str]:
    if differences := compare_text(EMBEDDED.sub("picture", stored), EMBEDDED.sub("picture", fresh)):
        return differences
    pictures = zip(EMBEDDED.findall(stored), EMBEDDED.findall(fresh), strict=True)
    return [difference for was, now in pictures for difference in compare_png(was, now)]


class _Pieces(HTMLParser):
    """Cut markup into tags and texts, each with its place: the last table row and the cell in it."""

    def __init__(self):
        super().__init__()
        self.pieces, self.row, self.cell = [], 0, 0

    @classmethod
    def of(cls, markup: str) -> list[tuple[str, str]]:
        parser = cls()
        parser.feed(markup)
        parser.close()
        return parser.pieces

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.row, self.cell = self.row + 1, 0
        self.cell += tag in ("td", "th")
        self._add(" ".join([f"<{tag}", *(f'{key}="{value}"' for key, value in attrs)]) + ">")

    def handle_endtag(self, tag):
        self._add(f"</{tag}>")

    def handle_data(self, data):
        if text := " ".join(data.split()):
            self._add(text)

    def _add(self, piece: str):
        self.pieces.append((f"row {self.row} cell {self.cell}" if self.row else "markup", piece))


def compare_json(stored, fresh) -> list[str]:
    """Compare JSON: the same structure, and every leaf by `compare_text`."""
    was, now = dict(_leaves(stored)), dict(_leaves(fresh))
    if was.keys() != now.keys():
        return [f"only one of both has {', '.join(sorted(was.keys() ^ now.keys()))}"]
    return [f"{path}, {difference}" for path in was for difference in compare_text(was[path], now[path])]


def _leaves(value, path: str = "$") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, f"{path}.{key}")
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def compare_png(stored: str, fresh: str) -> list[str]:
    """Compare two figures (in base64) by `moved_pixels`."""
    was, now = (Image.open(io.BytesIO(base64.b64decode(image))).convert("RGBA") for image in (stored, fresh))
    if was.size != now.size:
        return [f"{was.width} × {was.height} pixels were stored, {now.width} × {now.height} came out"]
    moved = moved_pixels(was, now)
    if (count := np.count_nonzero(moved)) <= MOVED:
        return []
    y, x = np.argwhere(moved).mean(axis=0).round().astype(int)
    return [f"{count} pixels moved or changed colour, around ({x}, {y}); allowed are {MOVED}"]


def moved_pixels(stored: Image.Image, fresh: Image.Image) -> np.ndarray:
    """Mark the pixels of either picture that are unlike everything at and next to their place in the other.

    Parameters
    ----------
    stored, fresh : Image
        Of the same size and mode.

    Returns
    -------
    ndarray of bool, (height, width)
    """
    moved = np.zeros((stored.height, stored.width), dtype=bool)
    for one, other in ((stored, fresh), (fresh, stored)):
        pixels, lowest, highest = (
            np.asarray(image, dtype=np.int16)
            for image in (one, other.filter(ImageFilter.MinFilter(3)), other.filter(ImageFilter.MaxFilter(3)))
        )
        moved |= ((pixels < lowest - COLOUR) | (pixels > highest + COLOUR)).any(axis=2)
    return moved
