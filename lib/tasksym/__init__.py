"""Which parts of a trained recurrent network can be cut without anyone noticing?"""

from tasksym import plotting
from tasksym._damped import Lift
from tasksym.ablation import ablation_profile, dose_response, evaluate, order_range
from tasksym.attention import AttentionStack, BilinearAttention
from tasksym.attention_tensors import attention_gram, attention_similarity
from tasksym.baselines import behavioural_cosine, linear_cka, matrix_cosine
from tasksym.bilinear import Bilinear, BilinearStack
from tasksym.diagnosis import Diagnosis, Verdict, diagnose
from tasksym.dynamics import fixed_point, jacobians, trajectory_spectrum
from tasksym.flows import Flow, flow
from tasksym.foreign import read_network, read_trials
from tasksym.gradient import loss
from tasksym.lifting import (
    FewProbesWarning,
    attribution,
    jacobian,
    lift,
    orbit_velocity,
    residual,
    sensitivities,
)
from tasksym.metrics import EFFECTS, effect, fvu, normalised_sensitivity
from tasksym.networks import TanhRNN
from tasksym.nulls import NULLS, RELATIVES, null_distribution, p_value, size_matched, verdicts
from tasksym.probes import ROTATION, Probes, defect, group_average, orbit_probes, polar_probes
from tasksym.readout import REPAIRS, readout_confound, refit_decoder, refit_encoder, repairs
from tasksym.recipes import PARAMETRISATIONS, RECIPES, STARTS, Recipe
from tasksym.references import REFERENCE_SEEDS, reference
from tasksym.schur import OrderedSchur, ordered_schur
from tasksym.sectors import COUPLINGS, SETS, Sectors, SplitWarning
from tasksym.statistics import (
    between_share,
    bootstrap_interval,
    centroid_accuracy,
    permutation_test,
    separation_test,
)
from tasksym.store import Store, StoreError
from tasksym.tasks import ContextIntegration, Copy, FlipFlop, SineGeneration
from tasksym.tensors import (
    Measure,
    difference,
    distance,
    gram,
    moment_matrix,
    monte_carlo,
    similarity,
    slices,
)
from tasksym.training import Solutions, solve, starting_networks
from tasksym.trials import Trials

__all__ = [
    "COUPLINGS",
    "EFFECTS",
    "NULLS",
    "PARAMETRISATIONS",
    "RECIPES",
    "REFERENCE_SEEDS",
    "RELATIVES",
    "REPAIRS",
    "ROTATION",
    "SETS",
    "STARTS",
    "AttentionStack",
    "Bilinear",
    "BilinearAttention",
    "BilinearStack",
    "ContextIntegration",
    "Copy",
    "Diagnosis",
    "FewProbesWarning",
    "FlipFlop",
    "Flow",
    "Lift",
    "Measure",
    "OrderedSchur",
    "Probes",
    "Recipe",
    "Sectors",
    "SineGeneration",
    "Solutions",
    "SplitWarning",
    "Store",
    "StoreError",
    "TanhRNN",
    "Trials",
    "Verdict",
    "ablation_profile",
    "attention_gram",
    "attention_similarity",
    "attribution",
    "behavioural_cosine",
    "between_share",
    "bootstrap_interval",
    "centroid_accuracy",
    "defect",
    "diagnose",
    "difference",
    "distance",
    "dose_response",
    "effect",
    "evaluate",
    "fixed_point",
    "flow",
    "fvu",
    "gram",
    "group_average",
    "jacobian",
    "jacobians",
    "lift",
    "linear_cka",
    "loss",
    "matrix_cosine",
    "moment_matrix",
    "monte_carlo",
    "normalised_sensitivity",
    "null_distribution",
    "orbit_probes",
    "orbit_velocity",
    "order_range",
    "ordered_schur",
    "p_value",
    "permutation_test",
    "plotting",
    "polar_probes",
    "read_network",
    "read_trials",
    "readout_confound",
    "reference",
    "refit_decoder",
    "refit_encoder",
    "repairs",
    "residual",
    "sensitivities",
    "separation_test",
    "similarity",
    "size_matched",
    "slices",
    "solve",
    "starting_networks",
    "trajectory_spectrum",
    "verdicts",
]
