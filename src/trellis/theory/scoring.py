"""A model's loss on held-out data, always with its interval; and two models on the same data.

    method       interval of
    exact        0-1 losses: Clopper-Pearson
    share        losses that are a share of units (F1, tokens), or lie within 0 and 1: Korn-Graubard
    mean         the mean loss of an example, at least 100 of them: Gamma limits
    bernstein    the mean loss of an example, within 0 and 1; holds for every number of examples
    hoeffding    the same, longer where losses are alike
    bootstrap    any loss, over examples; right only where there are very many

``method="auto"`` is exact for losses that are 0 or 1, a share where that is possible, else the mean.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from trellis.core.arguments import check_choice
from trellis.core.errors import UnsupportedError
from trellis.theory.confidence_intervals import (
    Interval,
    bootstrap_interval,
    clopper_pearson_interval,
    empirical_bernstein_interval,
    hoeffding_interval,
    mean_interval,
    share_interval,
)
from trellis.theory.example_losses import LossLike, loss_name, measure_losses
from trellis.theory.paired_tests import Comparison, mcnemar_test, paired_test

Method = Literal["auto", "exact", "share", "mean", "bootstrap", "bernstein", "hoeffding"]


def score_with_interval(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: LossLike = "zero_one",
    method: Method = "auto",
    delta: float = 0.05,
    seed: int = 0,
) -> Interval:
    """The loss of ``model.predict(X)`` against ``y``, with confidence 1 - delta.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.theory import score_with_interval
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 10, [["D", "N"], ["D", "N"]] * 10
    >>> score_with_interval(SequenceLabeler("log").fit(X, y), X, y, loss="hamming").value
    0.0
    """
    check_choice("method", method, get_args(Method))
    measured = measure_losses(y, model.predict(X), loss)
    # a loss whose values happen to be 0 and 1 is not a binomial; only the one that can take no others
    binary = loss == "zero_one" or (loss == "hamming" and measured.binary and measured.rows[:, 1].max() <= 1)
    if method == "auto":
        method = "exact" if binary else "mean" if measured.parts is None else "share"
    losses = measured.per_example
    if method == "bootstrap":
        return bootstrap_interval(measured.rows, measured.statistic, delta=delta, seed=seed)
    if method == "share":
        if measured.parts is None:
            raise UnsupportedError(
                f"{loss_name(loss)!r} is above 1 or below 0 for some example; use method='mean'"
            )
        return share_interval(*measured.parts, delta=delta)
    if method == "exact":
        if not binary or losses is None:
            raise UnsupportedError(
                f"the exact interval is for the 0-1 loss, not for {loss_name(loss)!r}; use 'share' or 'mean'"
            )
        return clopper_pearson_interval(int(losses.sum()), len(losses), delta=delta)
    if losses is None:
        raise UnsupportedError(f"{loss_name(loss)!r} is not a mean over examples; use method='share'")
    if method == "mean":
        return mean_interval(losses, delta=delta)
    interval = empirical_bernstein_interval if method == "bernstein" else hoeffding_interval
    return interval(losses, delta=delta)


def compare_models(
    a: Any, b: Any, X: Any, y: Any, *, loss: LossLike = "zero_one", delta: float = 0.05, seed: int = 0
) -> Comparison:
    """A paired test of two models on the same data: McNemar's for 0-1 losses, else by randomisation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from trellis.theory import compare_models
    >>> X, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
    >>> tree, most_frequent = DecisionTreeClassifier().fit(X, y), DummyClassifier().fit(X, y)
    >>> compare_models(tree, most_frequent, X, y).difference
    -0.5
    """
    first, second = (measure_losses(y, model.predict(X), loss) for model in (a, b))
    if loss == "zero_one" and first.per_example is not None and second.per_example is not None:
        return mcnemar_test(first.per_example, second.per_example, delta=delta)
    return paired_test(first.rows, second.rows, first.statistic, delta=delta, seed=seed)
