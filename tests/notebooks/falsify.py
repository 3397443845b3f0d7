"""Falsify copies of a page, in a scratch copy of the checks, and see whether the checks notice.

python tests/notebooks/falsify.py book/tasks/flip-flop.ipynb
"""

import base64
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import nbformat
from PIL import Image, ImageDraw, ImageStat

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [
    *("conftest.py", "jupytext.toml", "pyproject.toml", "book/_tools"),
    *("tests/notebooks/test_pairs.py", "tests/notebooks/test_cleanliness.py"),
]
PRINTED = re.compile(r"(?<![\w.])(\d+\.\d+)(?![\w.])")
IN_TABLE = re.compile(r"<td[^>]*>[^<\w]*(\d+(?:\.\d+)?)(?![\w.])")


class Verdict(NamedTuple):
    """A falsification, the test that must fail for it, and what that test said (nothing if it passed)."""

    falsification: str
    test: str
    said: str | None


def copy_checks(folder: Path) -> Path:
    """Copy the checks into an empty folder and return its book, which has no pages."""
    for name in CHECKS:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder / "book"


def failures(folder: Path, *arguments: str) -> dict[str, str]:
    """Run pytest in a folder and return what each failed test said, by the test's name."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", f"--junitxml={report}"]
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    return {
        # nbval's own message is the same for every fault.
        test.get("name"): fault.text.partition("Traceback:\n")[2].strip() or fault.get("message")
        for test in ElementTree.parse(report).iter("testcase")
        for fault in test
        if fault.tag in ("failure", "error")
    }


def falsify_number(outputs: list) -> bool:
    """Change a printed number by two units of its last digit; tell whether there is one."""
    return any(
        _change(output, "text", PRINTED) or _change(output.get("data", {}), "text/plain", PRINTED)
        for output in outputs
    )


def falsify_table(outputs: list) -> bool:
    """Change a table's cell by two units of its last digit."""
    return any(_change(output.get("data", {}), "text/html", IN_TABLE) for output in outputs)


def _change(contents: dict, key: str, pattern: re.Pattern) -> bool:
    text = contents.get(key, "")
    if not (match := pattern.search(text)):
        return False
    number = Decimal(match[1])
    changed = number + 2 * Decimal(1).scaleb(number.as_tuple().exponent)
    contents[key] = f"{text[: match.start(1)]}{changed}{text[match.end(1) :]}"
    return True


def falsify_figure(outputs: list) -> bool:
    """Draw a point of a usual marker's size where there was none."""
    for output in outputs:
        if encoded := output.get("data", {}).get("image/png"):
            image = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA")
            x, y = image.width // 2, image.height // 2
            spot = (x - 4, y - 4, x + 4, y + 4)
            dark = ImageStat.Stat(image.convert("L").crop(spot)).mean[0] < 128
            ImageDraw.Draw(image).ellipse(spot, fill="white" if dark else "black")
            png = io.BytesIO()
            image.save(png, format="PNG")
            output.data["image/png"] = base64.b64encode(png.getvalue()).decode()
            return True
    return False


def falsify_presence(outputs: list) -> bool:
    """Delete the last output."""
    return bool(outputs and outputs.pop())


OUTPUTS: dict[str, Callable[[list], bool]] = {
    "a table cell": falsify_table,
    "a figure": falsify_figure,
    "a printed number": falsify_number,
    "an output deleted": falsify_presence,
}


def falsify_outputs(path: Path) -> dict[str, str]:
    """Falsify a notebook in place, each time in another cell.

    Parameters
    ----------
    path : Path
        A stored notebook.

    Returns
    -------
    dict
        From the falsification to nbval's name of the cell, for those that the notebook has a cell for.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    free = {
        f"Cell {number}": cell.outputs
        for number, cell in enumerate(code)
        if "nbval-ignore-output" not in cell.metadata.get("tags", [])
    }
    done = {}
    for falsification, falsify in OUTPUTS.items():
        if name := next((name for name, outputs in free.items() if falsify(outputs)), None):
            done[falsification] = name
            del free[name]
    nbformat.write(notebook, path)
    return done


def tamper_count(twin: Path, notebook: nbformat.NotebookNode):
    next(cell for cell in notebook.cells if cell.cell_type == "code").execution_count = 99


def forget_run(twin: Path, notebook: nbformat.NotebookNode):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []


def edit_prose_of_notebook(twin: Path, notebook: nbformat.NotebookNode):
    next(cell for cell in notebook.cells if cell.cell_type == "markdown").source += " Not!"


def edit_code_of_twin(twin: Path, notebook: nbformat.NotebookNode):
    twin.write_text(twin.read_text(encoding="utf-8") + "\n```{code-cell} ipython3\n1 + 1\n```\n", encoding="utf-8")


EXECUTION = ["test_execution_counts_run_in_order"]
PAIRING = ["test_the_notebook_gives_the_twin", "test_the_twin_gives_the_notebook"]
PAIRS: dict[str, tuple[Callable, list[str]]] = {
    "an execution count": (tamper_count, EXECUTION),
    "a notebook stored unrun": (forget_run, EXECUTION),
    "prose of the notebook": (edit_prose_of_notebook, PAIRING),
    "code of the twin": (edit_code_of_twin, PAIRING),
}


def copy_pair(notebook: Path, target: Path) -> Path:
    """Copy a notebook and its twin; return the new notebook."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".md", ".ipynb"):
        shutil.copy(notebook.with_suffix(suffix), target.with_suffix(suffix))
    return target


def check_outputs(notebook: Path, folder: Path) -> tuple[list[Verdict], dict[str, str]]:
    """Falsify a stored notebook's outputs and run it.

    Parameters
    ----------
    notebook : Path
        Within `folder`; changed in place.
    folder : Path
        A copy of the checks.

    Returns
    -------
    verdicts : list of Verdict
    others : dict
        What cells said that had not been falsified.
    """
    falsified = falsify_outputs(notebook)
    said = failures(folder, "--nbval", "--nbval-current-env", str(notebook))
    return [Verdict(what, cell, said.pop(cell, None)) for what, cell in falsified.items()], said


def check_pairs(notebook: Path, folder: Path) -> tuple[list[Verdict], dict[str, str]]:
    """Falsify copies of a pair, one for each way, and run the tests of all pairs; returns as `check_outputs`."""
    expected = []
    for number, (what, (falsify, tests)) in enumerate(PAIRS.items()):
        copy = copy_pair(notebook, notebook.with_stem(f"{notebook.stem}-{number}"))
        content = nbformat.read(copy, as_version=4)
        falsify(copy.with_suffix(".md"), content)
        nbformat.write(content, copy)
        identity = copy.relative_to(folder / "book").with_suffix("").as_posix()
        expected += [(what, f"{test}[{identity}]") for test in tests]
    said = failures(folder, "tests/notebooks")
    return [Verdict(what, test, said.pop(test, None)) for what, test in expected], said


def main(page: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        book = copy_checks(folder)
        pages = shutil.ignore_patterns("*.md", "*.ipynb", "_*")  # but the data that a page may read
        shutil.copytree(ROOT / "book", book, ignore=pages, dirs_exist_ok=True)
        notebook = copy_pair(page, book / page.resolve().relative_to(ROOT / "book"))
        pairs, other_tests = check_pairs(notebook, folder)
        outputs, other_cells = check_outputs(notebook, folder)
    alarms = [Verdict("nothing", test, said) for test, said in (other_cells | other_tests).items()]
    for what, test, said in [*outputs, *pairs, *alarms]:
        status = "MISSED" if not said else "ALARM" if what == "nothing" else "caught"
        print(f"{status:8}{what:25}{test.partition('[')[0]:38}{(said or '-').splitlines()[0][:100]}")
    return int(bool(alarms) or not all(verdict.said for verdict in outputs + pairs))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
