"""Copy figures out of stored notebooks, for pages that do not run: the first page and the README.

python book/_tools/pictures.py
"""

import base64
from pathlib import Path

import nbformat

BOOK = Path(__file__).resolve().parents[1]

# picture in _static: (notebook, the figure's name)
PICTURES = {"which-couplings.png": ("ablations/no-universal-coupling.ipynb", "fig-no-universal-coupling")}


def figure(notebook: Path, name: str) -> bytes:
    """The PNG of a figure that a notebook stores under `mystnb.figure.name`."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == name:
            return base64.b64decode(
                next(o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {}))
            )
    raise KeyError(f"{notebook} has no figure named {name}")


if __name__ == "__main__":
    for picture, (notebook, name) in PICTURES.items():
        (BOOK / "_static" / picture).write_bytes(figure(BOOK / notebook, name))
