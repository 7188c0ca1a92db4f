"""How good is it really? Bounds, intervals, shattering, simulation and paired tests.

The names are imported on first use, so that ``trellis bound`` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trellis.theory.bounds import (
        Bound,
        finite_agnostic_bound,
        finite_consistent_bound,
        hoeffding_bound,
        sauer_bound,
        vc_bound,
        vc_deviation_bound,
    )
    from trellis.theory.families import (
        Boxes,
        Discs,
        Family,
        Finite,
        HalfPlanes,
        Intervals,
        Predicate,
        Rectangles,
        Sinusoids,
        Trees,
        parametrised,
    )
    from trellis.theory.intervals import (
        Interval,
        bootstrap_interval,
        clopper_pearson_interval,
        clopper_pearson_limits,
        empirical_bernstein_interval,
        hoeffding_interval,
        quantile_interval,
    )
    from trellis.theory.mistakes import MistakeBound, measured_mistake_bound, perceptron_mistake_bound
    from trellis.theory.paired_tests import Comparison, mcnemar_test, paired_loss_test, paired_test
    from trellis.theory.scoring import compare_models, score_with_interval
    from trellis.theory.shattering import Shattering, growth, labellings, shatters, vc_dimension
    from trellis.theory.simulation import (
        GapSample,
        LearningCurve,
        simulate_generalization_gap,
        simulate_learning_curve,
    )

# public name -> module that defines it
_EXPORTS = {
    "Bound": "trellis.theory.bounds",
    "Boxes": "trellis.theory.families",
    "Comparison": "trellis.theory.paired_tests",
    "Discs": "trellis.theory.families",
    "Family": "trellis.theory.families",
    "Finite": "trellis.theory.families",
    "GapSample": "trellis.theory.simulation",
    "HalfPlanes": "trellis.theory.families",
    "Interval": "trellis.theory.intervals",
    "Intervals": "trellis.theory.families",
    "LearningCurve": "trellis.theory.simulation",
    "MistakeBound": "trellis.theory.mistakes",
    "Predicate": "trellis.theory.families",
    "Rectangles": "trellis.theory.families",
    "Shattering": "trellis.theory.shattering",
    "Sinusoids": "trellis.theory.families",
    "Trees": "trellis.theory.families",
    "bootstrap_interval": "trellis.theory.intervals",
    "clopper_pearson_interval": "trellis.theory.intervals",
    "clopper_pearson_limits": "trellis.theory.intervals",
    "compare_models": "trellis.theory.scoring",
    "empirical_bernstein_interval": "trellis.theory.intervals",
    "finite_agnostic_bound": "trellis.theory.bounds",
    "finite_consistent_bound": "trellis.theory.bounds",
    "growth": "trellis.theory.shattering",
    "hoeffding_bound": "trellis.theory.bounds",
    "hoeffding_interval": "trellis.theory.intervals",
    "labellings": "trellis.theory.shattering",
    "mcnemar_test": "trellis.theory.paired_tests",
    "measured_mistake_bound": "trellis.theory.mistakes",
    "paired_loss_test": "trellis.theory.paired_tests",
    "paired_test": "trellis.theory.paired_tests",
    "parametrised": "trellis.theory.families",
    "perceptron_mistake_bound": "trellis.theory.mistakes",
    "quantile_interval": "trellis.theory.intervals",
    "sauer_bound": "trellis.theory.bounds",
    "score_with_interval": "trellis.theory.scoring",
    "shatters": "trellis.theory.shattering",
    "simulate_generalization_gap": "trellis.theory.simulation",
    "simulate_learning_curve": "trellis.theory.simulation",
    "vc_bound": "trellis.theory.bounds",
    "vc_deviation_bound": "trellis.theory.bounds",
    "vc_dimension": "trellis.theory.shattering",
}

__all__ = [
    "Bound",
    "Boxes",
    "Comparison",
    "Discs",
    "Family",
    "Finite",
    "GapSample",
    "HalfPlanes",
    "Interval",
    "Intervals",
    "LearningCurve",
    "MistakeBound",
    "Predicate",
    "Rectangles",
    "Shattering",
    "Sinusoids",
    "Trees",
    "bootstrap_interval",
    "clopper_pearson_interval",
    "clopper_pearson_limits",
    "compare_models",
    "empirical_bernstein_interval",
    "finite_agnostic_bound",
    "finite_consistent_bound",
    "growth",
    "hoeffding_bound",
    "hoeffding_interval",
    "labellings",
    "mcnemar_test",
    "measured_mistake_bound",
    "paired_loss_test",
    "paired_test",
    "parametrised",
    "perceptron_mistake_bound",
    "quantile_interval",
    "sauer_bound",
    "score_with_interval",
    "shatters",
    "simulate_generalization_gap",
    "simulate_learning_curve",
    "vc_bound",
    "vc_deviation_bound",
    "vc_dimension",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'trellis.theory' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
