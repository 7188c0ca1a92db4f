"""How good is it really? Bounds, intervals, shattering, simulation and paired tests.

The names are imported on first use, so that ``trellis bound`` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

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
    from trellis.theory.hypothesis_families import (
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
    from trellis.theory.mistake_bound import MistakeBound, measured_mistake_bound, perceptron_mistake_bound
    from trellis.theory.paired_tests import Comparison, mcnemar_test, paired_loss_test, paired_test
    from trellis.theory.scoring import compare_models, score_with_interval
    from trellis.theory.shattering import Shattering, growth, labellings, shatters, vc_dimension
    from trellis.theory.simulation import (
        GapSample,
        LearningCurve,
        simulate_generalization_gap,
        simulate_learning_curve,
    )

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

_NAMES = {
    "bounds": "Bound finite_agnostic_bound finite_consistent_bound hoeffding_bound sauer_bound vc_bound "
    "vc_deviation_bound",
    "hypothesis_families": "Boxes Discs Family Finite HalfPlanes Intervals Predicate Rectangles Sinusoids "
    "Trees parametrised",
    "intervals": "Interval bootstrap_interval clopper_pearson_interval clopper_pearson_limits "
    "empirical_bernstein_interval hoeffding_interval quantile_interval",
    "mistake_bound": "MistakeBound measured_mistake_bound perceptron_mistake_bound",
    "paired_tests": "Comparison mcnemar_test paired_loss_test paired_test",
    "scoring": "compare_models score_with_interval",
    "shattering": "Shattering growth labellings shatters vc_dimension",
    "simulation": "GapSample LearningCurve simulate_generalization_gap simulate_learning_curve",
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"trellis.theory.{module}" for module, names in _NAMES.items() for name in names.split()},
)
