"""The guard works: a page passes as it was stored, and every falsification fails for its own reason."""

import nbformat
import pytest
from execute import update
from falsify import PAIRS, check_outputs, check_pairs, copy_checks, copy_pair, failures

PAGE = """\
---
kernelspec:
  display_name: Python 3
  name: python3
---

# A page

```{code-cell}
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

plt.rcParams["figure.dpi"] = 144
heights = np.random.default_rng(0).uniform(size=24)
print(f"mean {heights.mean():.3f}")
```

```{code-cell}
pd.DataFrame({"coupling": ["RR", "CR", "CC"], "FVU": [0.812, 0.043, 0.25]})
```

```{code-cell}
---
mystnb:
  image:
    alt: Points
  figure:
    caption: Keys in another order than the notebook's, which sorts them.
---
plt.plot(heights);
```

```{code-cell}
print("RR", "CR", "CC")
```

```{code-cell}
---
mystnb:
  image:
    alt: Points
---
def scatter(heights):
    figure, axes = plt.subplots(subplot_kw={"ylim": (-0.1, 1.1)})
    axes.plot(heights, "o", markersize=4)

scatter(heights)
```

```{code-cell}
---
mystnb:
  image:
    alt: Points
---
scatter(np.where(np.arange(24) == 7, heights - 0.06, heights))
```

```{code-cell}
print(f"{0.500:.3f}, {np.sqrt(2) ** 2 - 2:.1e}")
```

```{code-cell}
:tags: [nbval-ignore-output]

import time
print(time.time())
```
"""
FIRST_SCATTER, SECOND_SCATTER, WITHIN_TOLERANCE = 4, 5, 6


class Saying:
    """Equal to every message that contains the phrases."""

    def __init__(self, *phrases):
        self.phrases = phrases

    def __eq__(self, message):
        return bool(message) and all(phrase in message for phrase in self.phrases)

    def __repr__(self):
        return f"<{' … '.join(self.phrases)}>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checks")


@pytest.fixture(scope="module")
def notebook(folder):
    twin = copy_checks(folder) / "page.md"
    twin.write_text(PAGE)
    update(twin, check=False)
    return twin.with_suffix(".ipynb")


def test_executing_again_changes_nothing(notebook):
    assert not update(notebook.with_suffix(".md"), check=True)


def test_the_page_passes_as_it_was_stored(notebook, folder):
    assert failures(folder, "--nbval", "--nbval-current-env", str(notebook)) == {}


def test_falsified_outputs_fail_and_no_others(notebook, folder):
    copy = copy_pair(notebook, notebook.with_stem("outputs"))
    content = nbformat.read(copy, as_version=4)
    cells = [cell for cell in content.cells if cell.cell_type == "code"]
    # Each of these two now stores the figure of the other, in which one point of 24 is moved.
    first, second = cells[FIRST_SCATTER], cells[SECOND_SCATTER]
    first.outputs, second.outputs = second.outputs, first.outputs
    within = cells[WITHIN_TOLERANCE].outputs[0]
    within.text = within.text.replace("0.500", "0.501").replace("4.4e-16", "-2.2e-16")
    nbformat.write(content, copy)

    verdicts, others = check_outputs(copy, folder)
    assert {verdict.falsification: verdict.said for verdict in verdicts} == {
        "a table cell": Saying("text/html, row 2 cell 3", "allowed is ±0.001"),
        "a figure": Saying("image/png", "pixels moved"),
        "a printed number": Saying("stdout, line 1", "allowed is ±0.001"),
        "an output deleted": Saying("stored: no output; now: stream (stdout)"),
    }
    assert others == {f"Cell {cell}": Saying("pixels moved") for cell in (FIRST_SCATTER, SECOND_SCATTER)}


def test_falsified_pairs_fail_and_no_others(notebook, folder):
    verdicts, others = check_pairs(notebook, folder)
    assert {verdict.falsification for verdict in verdicts} == PAIRS.keys()
    assert [verdict for verdict in verdicts if not verdict.said] == []
    assert others == {}
