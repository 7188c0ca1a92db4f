"""Fine-tuning trained weights for the task loss: how the direct objective learns under ``epsilon="auto"``.

Examples are held out: a fifth, or, where there are few, each of five parts in turn (a *fold* is what is
learned from and what is held out meanwhile). Of all held-out examples together,

1. the loss of trained weights w_0 chooses among the starts: convex objectives with ``L2_FACTORS`` times the
   l2 of the estimator, the smaller among equals;
2. eps_0 is the median of (s(y_hat) - s(y*)) / L(y_hat) over those predicted wrongly: the gap, per unit of
   loss, by which they are missed;
3. the loss after each pass of :class:`~trellis.solvers.FineTuning` from w_0 chooses how many to take, perhaps
   none;
4. and all examples are trained on: a new w_0 of the same kind, and as many passes from there.

Among few examples chance may favour a model that gives every step the same label; it is taken only where the
held-out losses prove it better (:func:`proved_better`). Without held-out examples, w_0 has the l2 of the
estimator, eps_0 is that of the training examples, and the last pass is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Generic, TypeVar

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.status import Status
from trellis.objectives.score_gaps import median_gap, relative_gaps
from trellis.solvers import Solution
from trellis.training.driver import EarlyStopping

L2_FACTORS = (3.0, 1.0, 0.3)
FEW_WRONG = 10  # held-out examples that are predicted wrongly, below which those of training count, too
PROOF = 1.645  # standard errors: a difference that chance makes once in twenty times

Start = TypeVar("Start")


@dataclass(frozen=True, eq=False)
class Fold:
    """``problem``: the examples to learn from. ``held``: those held out, for their score gaps; None where
    these have labels that training does not know. ``losses(weights)``: of each held-out example, whose
    weights in the mean are ``weight``."""

    problem: Any
    held: Any
    losses: Callable[[FloatArray], FloatArray]
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class Parts:
    """``whole``: the problem of all examples; None where nothing is refitted, which takes a single fold.
    ``one_label(weights)``: whether they give every step the same label, where there are several."""

    folds: Sequence[Fold]
    whole: Any = None
    one_label: Callable[[FloatArray], bool] = field(default=lambda weights: False)


@dataclass(frozen=True, eq=False)
class Steps(Generic[Start]):
    """What the recipe asks of training. ``starts``: the kinds of w_0, those with the largest l2 first, of
    which ``usual`` has that of the estimator. ``minimise(problem, weights, start)``: w_0 of one kind, sought
    from ``weights``. ``run(problem, weights, early_stopping, passes, note)``: the solver, for some passes or
    its own number."""

    starts: Sequence[Start]
    usual: Start
    minimise: Callable[[Any, FloatArray, Start], Solution]
    run: Callable[[Any, FloatArray, EarlyStopping[FloatArray] | None, int | None, str], Solution]


@dataclass(frozen=True, eq=False)
class Tuned:
    solution: Solution
    epsilon: float | None


def problem_gaps(problem: Any, weights: FloatArray) -> FloatArray:
    """The relative gaps of the examples of a problem (:mod:`trellis.objectives.score_gaps`)."""
    return relative_gaps(problem.score_gaps(weights), problem.task_losses(weights))


def typical_gap(problem: Any, weights: FloatArray) -> float | None:
    """eps_0 of a problem; None where no prediction is wrong, or all are ties."""
    return median_gap(problem_gaps(problem, weights))


def proved_better(before: FloatArray, after: FloatArray, weight: FloatArray) -> bool:
    """Whether the weighted mean of the losses fell by more than chance makes of it, by paired differences."""
    gains = (before - after) * (weight / weight.mean())
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return bool(gains.mean() > PROOF * error)


def fine_tune(problem: Any, parts: Parts | None, steps: Steps[Any], start: FloatArray) -> Tuned:
    """``start``: the weights from which w_0 is sought, or w_0 itself where the steps have it so."""
    if parts is None:
        return _without_held_out_examples(problem, steps, start)
    choice = _choose_start(parts, steps, start)
    if isinstance(choice, Solution):
        return Tuned(choice, None)
    epsilon = _common_gap(parts.folds, [one.weights for one in choice.found])
    if epsilon is None or not all(one.weights.any() for one in choice.found):
        return _start_alone(parts, steps, choice)
    runs, losses = [], []
    for i, (fold, first) in enumerate(zip(parts.folds, choice.found, strict=True)):
        note = f", part {i + 1} of {len(parts.folds)}" if len(parts.folds) > 1 else ""
        measured = _Measured(fold)
        stopping = EarlyStopping(measured, patience=10**9)
        runs.append(steps.run(fold.problem.with_(epsilon=epsilon), first.weights, stopping, None, note))
        if runs[-1].interrupted:
            return Tuned(runs[-1], epsilon)
        losses.append(measured.losses)
    # of all held-out examples together, before the first pass and after each
    curve = [np.concatenate(one) for one in _to_the_longest(losses)]
    means = [_mean(one, choice.weight) for one in curve]
    best = int(np.argmin(means))
    history = {**_joined([one.history for one in runs]), "holdout_loss": means[1:]}
    whose = "hold-out loss" if len(runs) == 1 else f"loss of {len(runs)} parts held out in turn"
    said = f"the {whose} is smallest after {best} of {len(means) - 1} passes"
    if best == 0:
        said = f"no pass brought the {whose} below the {means[0]:.6g} of the starting weights"
    first, last = choice.found[0], runs[0]
    if parts.whole is not None:
        first = last = steps.minimise(parts.whole, _centre(choice.found), choice.start)
        if best and first.weights.any() and not first.interrupted:
            last = steps.run(parts.whole.with_(epsilon=epsilon), first.weights, None, best, ", all data")
        if last.interrupted:
            return Tuned(last, epsilon)
        said += "; then all data were trained on" + (" for as many" if best else "")
    weights, said = last.weights, said + told_by_shares(history)
    collapsed = best > 0 and parts.one_label(weights) and not parts.one_label(first.weights)
    if collapsed and not proved_better(curve[0], curve[best], choice.weight):
        weights = first.weights
        said += "; they ended at one label for every step, so the starting weights are kept"
    status = Status(False, said, len(means) - 1)
    return Tuned(Solution(weights=weights, status=status, history=history, n_iter=len(means) - 1), epsilon)


class _Measured:
    """The mean loss of the held-out examples of a fold; all of them are kept, call by call."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.losses: list[FloatArray] = []

    def loss_memory(self) -> list[FloatArray]:
        """For checkpoints: losses of all calls so far."""
        return self.losses

    def recall_losses(self, memory: list[FloatArray]) -> None:
        self.losses = memory

    def __call__(self, weights: FloatArray) -> float:
        self.losses.append(self._fold.losses(weights))
        return _mean(self.losses[-1], self._fold.weight)


def _centre(found: Sequence[Solution]) -> FloatArray:
    return np.asarray(np.mean([one.weights for one in found], axis=0))


def told_by_shares(history: Mapping[str, Sequence[float]]) -> str:
    """What a status should say of the shares of updates (:mod:`trellis.objectives.update_shares`)."""
    updates, gold = history.get("update_share", ()), history.get("gold_share", ())
    if len(updates) and updates[-1] == 0.0:
        return f"; from pass {len(updates)} on no example changed the weights any more"
    if len(gold) and min(gold) == 1.0:
        return "; y_direct was the gold output throughout, so that the loss of other outputs was not seen"
    return ""


@dataclass(frozen=True, eq=False)
class _Choice:
    """The kind of w_0, those of the folds, and the weights of all held-out examples."""

    start: Any
    found: list[Solution]
    weight: FloatArray


def _choose_start(parts: Parts, steps: Steps[Any], start: FloatArray) -> _Choice | Solution:
    """The kind of w_0 with the smallest loss of held-out examples; or w_0 of one fold where it was
    interrupted."""
    weight = np.concatenate([fold.weight for fold in parts.folds])
    points = [start] * len(parts.folds)
    tried: list[tuple[FloatArray, bool, _Choice]] = []
    for kind in steps.starts:
        found = []
        for fold, point in zip(parts.folds, points, strict=True):
            found.append(steps.minimise(fold.problem, point, kind))
            if found[-1].interrupted:
                return found[-1]
        points = [one.weights for one in found]
        losses = np.concatenate([fold.losses(w) for fold, w in zip(parts.folds, points, strict=True)])
        collapsed = all(parts.one_label(w) for w in points)
        tried.append((losses, collapsed, _Choice(kind, found, weight)))
    tried.reverse()  # the first of equals has the smallest l2
    several = [one for one in tried if not one[1]]
    best = min(several or tried, key=lambda one: _mean(one[0], weight))
    for losses, _, choice in tried:
        if _mean(losses, weight) < _mean(best[0], weight) and proved_better(best[0], losses, weight):
            return choice
    return best[2]


def _common_gap(folds: Sequence[Fold], points: Sequence[FloatArray]) -> float | None:
    """eps_0 of the held-out examples of all folds; of those of training, too, where few of them are wrong."""
    pairs = list(zip(folds, points, strict=True))
    gaps = [problem_gaps(fold.held, w) for fold, w in pairs if fold.held is not None]
    if sum(map(len, gaps)) < FEW_WRONG:
        gaps += [problem_gaps(fold.problem, w) for fold, w in pairs]
    return median_gap(np.concatenate(gaps))


def _without_held_out_examples(problem: Any, steps: Steps[Any], start: FloatArray) -> Tuned:
    first = steps.minimise(problem, start, steps.usual)
    if first.interrupted:
        return Tuned(first, None)
    epsilon = typical_gap(problem, first.weights)
    if epsilon is None or not first.weights.any():
        said = _nothing_to_tune([problem.task_losses(first.weights)])
        return Tuned(replace(first, status=Status(False, said, first.n_iter)), None)
    found = steps.run(problem.with_(epsilon=epsilon), first.weights, None, None, "")
    said = found.status.reason
    if found.history.get("update_share", [0.0])[-1] > 0.0:  # otherwise the run has said so
        said += told_by_shares(found.history)
    return Tuned(replace(found, status=replace(found.status, reason=said)), epsilon)


def _start_alone(parts: Parts, steps: Steps[Any], choice: _Choice) -> Tuned:
    first, pairs = choice.found[0], zip(parts.folds, choice.found, strict=True)
    said = _nothing_to_tune([fold.losses(one.weights) for fold, one in pairs])
    if parts.whole is not None:
        first = steps.minimise(parts.whole, first.weights, choice.start)
    status = first.status if first.interrupted else Status(False, said, first.n_iter)
    return Tuned(replace(first, status=status), None)


def _nothing_to_tune(losses: Sequence[FloatArray]) -> str:
    if any(one.any() for one in losses):
        return (
            "the starting weights are 0, or all their wrong predictions are ties, so there is no scale to "
            "fine-tune them by; lower l2, or add features"
        )
    return "the starting weights predict every example right, so there is nothing to fine-tune"


def _mean(losses: FloatArray, weight: FloatArray) -> float:
    """0 where no example counts."""
    total = float(weight.sum())
    return float(losses @ weight) / total if total > 0.0 else 0.0


def _to_the_longest(curves: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Entry by entry; a run that ended earlier stays where it was."""
    rows = zip_longest(*curves)
    return [tuple(c[-1] if x is None else x for c, x in zip(curves, row, strict=True)) for row in rows]


def _joined(histories: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    """The means over runs, pass by pass; seconds add up."""
    joined = {}
    for key in histories[0]:
        rows = np.array(_to_the_longest([one[key] for one in histories]))
        joined[key] = (rows.sum(axis=1) if key == "seconds" else rows.mean(axis=1)).tolist()
    return joined
