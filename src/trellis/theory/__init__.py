"""How good is it really? Bounds, intervals, shattering, simulation and paired tests.

The names are imported on first use, so that ``trellis bound`` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.theory.bounds import Bound as Bound
    from trellis.theory.bounds import finite_agnostic_bound as finite_agnostic_bound
    from trellis.theory.bounds import finite_consistent_bound as finite_consistent_bound
    from trellis.theory.bounds import hoeffding_bound as hoeffding_bound
    from trellis.theory.bounds import sauer_bound as sauer_bound
    from trellis.theory.bounds import vc_bound as vc_bound
    from trellis.theory.bounds import vc_deviation_bound as vc_deviation_bound
    from trellis.theory.confidence_intervals import Interval as Interval
    from trellis.theory.confidence_intervals import bootstrap_interval as bootstrap_interval
    from trellis.theory.confidence_intervals import clopper_pearson_interval as clopper_pearson_interval
    from trellis.theory.confidence_intervals import clopper_pearson_limits as clopper_pearson_limits
    from trellis.theory.confidence_intervals import (
        empirical_bernstein_interval as empirical_bernstein_interval,
    )
    from trellis.theory.confidence_intervals import hoeffding_interval as hoeffding_interval
    from trellis.theory.confidence_intervals import mean_interval as mean_interval
    from trellis.theory.confidence_intervals import quantile_interval as quantile_interval
    from trellis.theory.confidence_intervals import share_interval as share_interval
    from trellis.theory.geometric_families import Boxes as Boxes
    from trellis.theory.geometric_families import Discs as Discs
    from trellis.theory.geometric_families import HalfPlanes as HalfPlanes
    from trellis.theory.geometric_families import Intervals as Intervals
    from trellis.theory.geometric_families import Rectangles as Rectangles
    from trellis.theory.geometric_families import Sinusoids as Sinusoids
    from trellis.theory.geometric_families import Trees as Trees
    from trellis.theory.hypothesis_families import Family as Family
    from trellis.theory.hypothesis_families import Finite as Finite
    from trellis.theory.hypothesis_families import Predicate as Predicate
    from trellis.theory.hypothesis_families import parametrised as parametrised
    from trellis.theory.mistake_bound import MistakeBound as MistakeBound
    from trellis.theory.mistake_bound import measured_mistake_bound as measured_mistake_bound
    from trellis.theory.mistake_bound import perceptron_mistake_bound as perceptron_mistake_bound
    from trellis.theory.paired_tests import Comparison as Comparison
    from trellis.theory.paired_tests import mcnemar_test as mcnemar_test
    from trellis.theory.paired_tests import paired_loss_test as paired_loss_test
    from trellis.theory.paired_tests import paired_test as paired_test
    from trellis.theory.scoring import compare_models as compare_models
    from trellis.theory.scoring import score_with_interval as score_with_interval
    from trellis.theory.share_statistics import Share as Share
    from trellis.theory.shattering import Shattering as Shattering
    from trellis.theory.shattering import growth as growth
    from trellis.theory.shattering import labellings as labellings
    from trellis.theory.shattering import shatters as shatters
    from trellis.theory.shattering import vc_dimension as vc_dimension
    from trellis.theory.simulation import GapSample as GapSample
    from trellis.theory.simulation import LearningCurve as LearningCurve
    from trellis.theory.simulation import simulate_generalization_gap as simulate_generalization_gap
    from trellis.theory.simulation import simulate_learning_curve as simulate_learning_curve

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "bounds": "Bound finite_agnostic_bound finite_consistent_bound hoeffding_bound sauer_bound vc_bound "
        "vc_deviation_bound",
        "geometric_families": "Boxes Discs HalfPlanes Intervals Rectangles Sinusoids Trees",
        "hypothesis_families": "Family Finite Predicate parametrised",
        "confidence_intervals": "Interval bootstrap_interval clopper_pearson_interval clopper_pearson_limits "
        "empirical_bernstein_interval hoeffding_interval mean_interval quantile_interval share_interval",
        "mistake_bound": "MistakeBound measured_mistake_bound perceptron_mistake_bound",
        "paired_tests": "Comparison mcnemar_test paired_loss_test paired_test",
        "scoring": "compare_models score_with_interval",
        "share_statistics": "Share",
        "shattering": "Shattering growth labellings shatters vc_dimension",
        "simulation": "GapSample LearningCurve simulate_generalization_gap simulate_learning_curve",
    },
)
