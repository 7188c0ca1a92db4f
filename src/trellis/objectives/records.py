"""An objective is one record: a formula's choices, from which its flags follow.

    f = link(total_y (s(y) + loss_scale L(y)) - baseline)

is the value for one example; a problem sums them over examples and adds ``(l2 / 2) ||w||^2 + l1 ||w||_1``
(sums, not means). s is the score, L the loss against the gold output y*. Oracles in NumPy, compiled kernels,
tensors and candidate lists all read the record: an objective that is another choice of the fields is a class
of a few lines, here or in a user's own module, and works with all of them::

    @objectives.register
    class HalfMargin(objectives.Objective):
        name = "half_margin"
        loss_scale = 0.5

What the formula does not cover is in :mod:`trellis.objectives.special_cases`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

from trellis.core import registration
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.foreign_names import unknown_choice
from trellis.objectives.links import Link, link

if TYPE_CHECKING:  # the command line lists objectives without loading NumPy
    from trellis.core.arrays import FloatArray
    from trellis.core.oracle import Answers, BatchOracle, Oracle
    from trellis.objectives.candidates import CandidateList
    from trellis.objectives.formula_kernels import Formula

Total = Literal["max", "sum"]
Baseline = Literal["gold", "best"]
Special = Literal["", "slack", "risk", "direct", "own"]


@dataclass(frozen=True)
class Objective:
    """f = link(total_y (s(y) + loss_scale L(y)) - baseline), with

    * ``total``: ``"max"`` for max_y, ``"sum"`` for log sum_y exp;
    * ``baseline``: ``"gold"`` for the same total of s over the gold outputs alone (s(y*) where there is one),
      ``"best"`` for max_y s(y);
    * ``link``: ``"identity"``, or ``"square"`` for (1/2) [.]_+^2.

    Its gradient is the link's slope times (parts of the total - parts of the baseline). ``special`` names the
    objectives that this formula does not cover; ``"own"`` is one that overrides :meth:`value_and_gradient`,
    which reaches every structure with an oracle, but neither tensors nor candidates. Nothing is known of its
    flags, and it may override them too.

    Examples
    --------
    >>> from trellis.objectives import Objective, get_objective
    >>> isinstance(get_objective("margin"), Objective)
    True
    """

    name: ClassVar[str]
    total: ClassVar[Total] = "max"
    loss_scale: ClassVar[float] = 1.0
    baseline: ClassVar[Baseline] = "gold"
    link: ClassVar[Link] = "identity"
    special: ClassVar[Special] = ""

    def __post_init__(self) -> None:
        if not isinstance(getattr(self, "name", None), str):
            raise DataError(f"the objective {type(self).__name__} has no name; set the class variable 'name'")
        choices = {"total": Total, "baseline": Baseline, "link": Link, "special": Special}
        for field, choice in choices.items():
            if getattr(self, field) not in get_args(choice):
                known = ", ".join(repr(value) for value in get_args(choice))
                raise DataError(
                    f"the objective {self.name!r} has {field}={getattr(self, field)!r}; choose one of {known}"
                )
        own = type(self).value_and_gradient is not Objective.value_and_gradient
        if self.special == ("" if own else "own"):
            raise DataError(
                f"the objective {self.name!r} needs both special='own' and its own "
                "value_and_gradient(oracle, epsilon), or neither"
            )
        if not isfinite(self.loss_scale):
            raise DataError(
                f"the objective {self.name!r} has loss_scale={self.loss_scale}; it must be finite"
            )

    @property
    def convex(self) -> bool:
        """In the part scores, and so in the weights of a linear model, where the gold output is one."""
        return self.baseline == "gold" and self.special in ("", "slack")

    @property
    def two_labelings(self) -> bool:
        """Whether the gradient is a coefficient times the difference of two outputs: c (Phi(up) - Phi(down)).

        The coefficient may depend on the scores, so this says nothing about planes."""
        return self.total == "max" and self.special != "own"

    @property
    def piecewise_linear(self) -> bool:
        """Whether f is the maximum of finitely many affine functions of the scores: convex, and made of
        planes, so that the dual over planes is exact."""
        return self.convex and self.two_labelings and self.link == "identity"

    @property
    def smooth(self) -> bool:
        """Whether f is differentiable everywhere. A maximum has kinks wherever two outputs share it."""
        return self.total == "sum" and self.baseline == "gold" and self.special != "own"

    @property
    def lipschitz(self) -> bool:
        """Whether the gradient is bounded, however large the weights: what rates of 1 / (l2 t) need."""
        return self.link == "identity" and self.special != "own"

    @property
    def uses_loss(self) -> bool:
        """Whether the task loss enters the objective."""
        return self.loss_scale != 0.0 or self.special != ""

    @property
    def scale_free(self) -> bool:
        """Whether f is the same for s and for 2 s, so that a norm of the weights regularises nothing."""
        return self.special == "direct"

    @property
    def log_likelihood(self) -> bool:
        """Whether f is log sum_y exp s(y) - log sum_gold exp s(y), for which there are faster kernels."""
        choices = self.total, self.loss_scale, self.baseline, self.link, self.special
        return choices == ("sum", 0.0, "gold", "identity", "")

    @property
    def decaying(self) -> bool:
        """Whether the epsilon of a direct objective falls with every example seen."""
        return False

    @property
    def fine_tuned(self) -> bool:
        """Whether the epsilon of a direct objective starts at the scale of the scores and falls."""
        return False

    @property
    def for_oracles(self) -> bool:
        """Whether the questions of :class:`trellis.core.oracle.Oracle` suffice for f and its gradient."""
        return self.special in ("", "direct", "own")

    @property
    def margin_rescaling(self) -> bool:
        """Whether f = max_y (s(y) + c L(y)) - max_gold s with c != 0: a structural SVM, and a difference of
        convex functions where parts of the gold output are hidden."""
        return self.piecewise_linear and self.special == "" and self.loss_scale != 0.0

    @property
    def starts_from(self) -> Objective | None:
        """The convex objective whose weights training starts from in place of w = 0; None where f is convex,
        or has a formula of its own.

        At w = 0 all outputs tie: a difference of two maxima is flat there, and an expected loss falls fastest
        towards the most frequent label, where its gradient ends. Convex bounds know neither: the likelihood
        for a sum, and for a maximum the margin objective, which bounds it."""
        if self.convex or self.special == "own":
            return None
        return Log() if self.total == "sum" else Margin()

    @property
    def formula(self) -> Formula:
        """The record for compiled code."""
        from trellis.objectives.formula_kernels import Formula

        if self.special == "own":
            raise UnsupportedError(
                f"the objective {self.name!r} has its own formula, which compiled code does not know; use "
                "solver='minibatch'"
            )
        return Formula(
            get_args(Special).index(self.special),
            float(self.loss_scale),
            get_args(Baseline).index(self.baseline),
            get_args(Link).index(self.link),
            0.0,
        )

    def apply_link(self, z: Any) -> tuple[Any, Any]:
        """The link's value and slope at a number, an array or a tensor."""
        return link(get_args(Link).index(self.link), z)

    def _total_and_baseline(self, oracle: Any) -> tuple[Any, Any]:
        """The answers whose difference the link takes, of one example or of a batch."""
        sums = self.total == "sum"
        above = oracle.sum(self.loss_scale) if sums else oracle.best(self.loss_scale)
        if self.baseline == "best":
            return above, oracle.best(0.0)
        return above, oracle.gold_sum() if sums else oracle.gold_best()

    def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, FloatArray]:
        """f of one example and a (sub)gradient of it in the oracle's parts."""
        above, below = self._total_and_baseline(oracle)
        value, slope = self.apply_link(above.value - below.value)
        return float(value), slope * (above.parts - below.parts)

    def over_batch(
        self, oracle: BatchOracle, epsilon: float
    ) -> tuple[FloatArray, FloatArray | float, Answers, Answers]:
        """f (n,) of examples that are answered together, and their gradients c_i (above_i - below_i): the
        coefficients c (one for all, or (n,)), above and below."""
        above, below = self._total_and_baseline(oracle)
        values, slopes = self.apply_link(above.values - below.values)
        return values, slopes, above, below

    def over_candidates(self, candidates: CandidateList, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """f (S,) with candidates in place of all outputs, and the coefficient of each candidate (R, S): the
        gradient is sum_r coefficient_r parts_r."""
        if self.special == "own":
            raise UnsupportedError(
                f"the objective {self.name!r} has its own formula, which does not say how to read a list of "
                "candidates; override over_candidates, or use loss='hamming'"
            )
        augmented = candidates.scores + self.loss_scale * candidates.losses
        if self.total == "sum":
            above, coefficients = candidates.log_sum(augmented)
        else:
            above, coefficients = candidates.best(augmented)
        if self.baseline == "best":
            below, shares = candidates.best(candidates.scores)
            coefficients -= shares
        else:
            below = candidates.gold_scores
            coefficients[-1] -= 1.0
        value, slope = self.apply_link(above - below)
        return value, slope * coefficients


OBJECTIVES: dict[str, type[Objective]] = {}
Record = TypeVar("Record", bound=type[Objective])


def register(record: Record) -> Record:
    """Let names and model files stand for this class. Use it as a decorator.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Margin, register
    >>> @register
    ... @dataclass(frozen=True)
    ... class GentleMargin(Margin):
    ...     name = "gentle_margin"
    ...     loss_scale = 0.5
    ...
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> SequenceLabeler("gentle_margin").fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """
    unset = [f.name for f in fields(record) if f.default is MISSING and f.default_factory is MISSING]
    if unset:
        raise DataError(f"the option {unset[0]!r} of {record.__name__} needs a default, for use by name")
    name = record().name
    known = OBJECTIVES.setdefault(name, record)
    if (known.__module__, known.__qualname__) != (record.__module__, record.__qualname__):
        raise DataError(f"an objective named {name!r} already exists; choose another name")
    OBJECTIVES[name] = record  # a notebook cell that is run again defines its class again
    return registration.register(record)


@register
@dataclass(frozen=True)
class Perceptron(Objective):
    """max_y s(y) - s(y*).

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Perceptron
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Perceptron(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "perceptron"
    loss_scale = 0.0


@register
@dataclass(frozen=True)
class Margin(Objective):
    """max_y (s(y) + L(y)) - s(y*): the margin-rescaled hinge of the structural SVM.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Margin
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Margin(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "margin"


@register
@dataclass(frozen=True)
class SquaredMargin(Objective):
    """(1/2) xi^2, xi = [max_y (s(y) + L(y)) - s(y*)]_+: the squared hinge of the L2 structural SVM.

    A problem is (1/2) sum_i c_i xi_i^2 + (l2 / 2) ||w||^2, so ``C`` = 1 / l2 for slacks that cost C xi^2 / 2.
    Convex, but not piecewise linear. Differentiable where xi = 0, with a kink where xi > 0 and two outputs
    share the maximum.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import SquaredMargin
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(SquaredMargin(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "squared_margin"
    link = "square"


@register
@dataclass(frozen=True)
class Log(Objective):
    """log sum_y exp s(y) - s(y*): the negative conditional log-likelihood of a CRF.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Log
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Log(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "log"
    total = "sum"
    loss_scale = 0.0


@register
@dataclass(frozen=True)
class SoftmaxMargin(Objective):
    """log sum_y exp(s(y) + L(y)) - s(y*).

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import SoftmaxMargin
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(SoftmaxMargin(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "softmax_margin"
    total = "sum"


@register
@dataclass(frozen=True)
class Ramp(Objective):
    """max_y (s(y) + L(y)) - max_y s(y): between the loss and the margin objective, not convex.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.objectives import Ramp
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> SequenceLabeler(Ramp(), random_state=0).fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "ramp"
    baseline = "best"


def get_objective(objective: str | Objective) -> Objective:
    """An objective by its name, or as given.

    Examples
    --------
    >>> from trellis.objectives import get_objective
    >>> get_objective("log").name
    'log'
    """
    if isinstance(objective, Objective):
        return objective
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise DataError(unknown_choice("objective", objective, OBJECTIVES))
    return OBJECTIVES[objective]()


def names(flag: str) -> str:
    """The names of the objectives with this flag, for messages: "'log', 'softmax_margin' or 'risk'"."""
    *others, last = [repr(name) for name, record in OBJECTIVES.items() if getattr(record(), flag)]
    return f"{', '.join(others)} or {last}" if others else last
