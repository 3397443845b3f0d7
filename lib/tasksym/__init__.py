"""Which parts of a trained recurrent network can be cut without anyone noticing?"""

from tasksym import plotting
from tasksym.ablation import ablation_profile
from tasksym.metrics import fvu, normalised_sensitivity
from tasksym.networks import TanhRNN, loss
from tasksym.recipes import RECIPES, Recipe
from tasksym.schur import COUPLINGS, SETS, OrderedSchur, Sectors, SplitWarning, ordered_schur
from tasksym.store import Store, StoreError
from tasksym.tasks import FlipFlop, Trials
from tasksym.training import REFERENCE_SEEDS, Solutions, reference, solve, starting_networks

__all__ = [
    "COUPLINGS",
    "RECIPES",
    "REFERENCE_SEEDS",
    "SETS",
    "FlipFlop",
    "OrderedSchur",
    "Recipe",
    "Sectors",
    "Solutions",
    "SplitWarning",
    "Store",
    "StoreError",
    "TanhRNN",
    "Trials",
    "ablation_profile",
    "fvu",
    "loss",
    "normalised_sensitivity",
    "ordered_schur",
    "plotting",
    "reference",
    "solve",
    "starting_networks",
]
