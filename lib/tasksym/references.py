"""Reference solutions: trained once, shipped with the package, and the source of every number that the book prints."""

from __future__ import annotations

from pathlib import Path

from tasksym.recipes import RECIPES
from tasksym.store import StoreError, read, write
from tasksym.training import PARAMETERS, Solutions, networks_of, provenance_of, trained_parameters

REFERENCE_SEEDS = range(100, 116)
REFERENCE_FOLDER = Path(__file__).parent / "data" / "reference"


def reference(name: str) -> Solutions:
    """The shipped solutions of a recipe: seeds 100–115, trained parameters rounded to half precision.

    All numbers that the book prints come from these, since some trainings are chaotic: they differ between
    instruction sets. `solve(RECIPES[name], REFERENCE_SEEDS)` trains them anew.

    Parameters
    ----------
    name : str
        A key of `RECIPES`.

    Raises
    ------
    KeyError
        If there is no such recipe.
    StoreError
        If the shipped file is missing, its bytes were changed, or it was trained by another recipe.
    """
    if name not in RECIPES:
        raise KeyError(f"no recipe is named {name!r}; there are {', '.join(RECIPES)}")
    path = REFERENCE_FOLDER / f"{name}.safetensors"
    if not path.exists():
        raise StoreError(f"{path.name} is not shipped with this installation; `make reference` trains it anew")
    tensors, provenance = read(path)
    recipe = RECIPES[name]
    if provenance["recipe"] != repr(recipe):
        raise StoreError(f"{path.name} was trained by another recipe; `make reference` trains it anew")
    tensors = {key: tensor.float() for key, tensor in tensors.items()}
    return Solutions(recipe, tuple(provenance["seeds"]), networks_of(recipe, tensors), tensors["loss"])


def write_references(folder: Path = REFERENCE_FOLDER) -> None:
    """Train the reference solutions and write them with their provenance; what the store has is not trained again."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = tuple(REFERENCE_SEEDS)
    for name, recipe in RECIPES.items():
        trained = trained_parameters(recipe, seeds)
        tensors = {key: trained[key].half() for key in PARAMETERS} | {"loss": trained["loss"]}
        write(folder / f"{name}.safetensors", tensors, provenance_of(recipe) | {"seeds": list(seeds)})
