"""``partial_fit``: an online solver goes on where its last pass ended, over data that come in pieces.

The first call fixes the encoder, the labels and the layout, with a weight for every pair of feature and
label; on a fitted (or loaded) model these are the model's own. Each call is one pass over its data. The state
of the solver's run (step count, averages, accumulators) is kept between calls. The regulariser stands for all
data seen so far,

    sum_i c_i f_i(w) + (l2 / 2) ||w||^2,      i over the sequences of this call and of all before it,

so of its weight a call with n of the N sequences seen takes the share n / N.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, NumericalError, UnsupportedError
from trellis.core.status import Status
from trellis.data.labels import FlatLabels, LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.objectives.records import Objective
from trellis.objectives.special_cases import Direct
from trellis.solvers import Solver
from trellis.structures.chain.labeler.chain_training import Examples, weighted_examples, weighted_loss
from trellis.structures.chain.labeler.inspection import one_symbol_per_step
from trellis.structures.chain.labeler.latent_start import refuse_candidates, split_states
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.training.options import Options, automatic_solver, checked_options, draw_seed

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler


@dataclass
class OnlineTraining:
    """What lives on between calls: the random stream, the sequences seen, and the state of the run."""

    solver: str
    rng: np.random.Generator
    n_seen: int = 0
    state: Any = None


class _Known(NamedTuple):
    """What the first call fixes, and where the weights stand."""

    encoder: FeatureEncoder
    latent: LatentLabels
    layout: LinearLayout
    weights: FloatArray
    one_symbol: bool


def continue_training(
    model: SequenceLabeler,
    X: Any,
    y: FlatLabels,
    classes: Any,
    lengths: ArrayLike | None,
    sample_weight: Any,
) -> None:
    """One more pass, over ``X`` and ``y``; an error leaves the model as it was."""
    options = checked_options(model)
    objective, loss = options.objective, options.loss
    solver = _online_solver(model, options)
    _refuse_what_needs_all_data(model, objective)
    known, inputs = _known(model, X, y, classes, lengths)
    latent, names = known.latent, known.latent.labels
    refuse_candidates(latent, objective, loss)
    labels = names.encode(y, like=inputs.nodes.offsets)
    penalties = model._penalties(latent, labels)
    if objective.uses_loss:
        loss = weighted_loss(loss, model.class_weight, labels, names)
    data = weighted_examples(
        Examples(inputs, labels), names, objective, loss, sample_weight, model.class_weight
    )
    online = _online(model, solver)
    n_seen = online.n_seen + len(data.examples)
    l2 = model.l2 * len(data.examples) / n_seen
    problem = model._problem(data.over_states(latent), known.layout, penalties, latent, objective, loss, l2)
    epsilon = None
    if isinstance(objective, Direct) and not isinstance(objective.epsilon, str):
        epsilon = objective.epsilon
        problem = problem.with_(epsilon=epsilon)
    rng, state = deepcopy((online.rng, online.state))  # a pass changes them, also one that fails
    run = solver.start(problem, known.weights.copy(), rng, state=state)
    with np.errstate(over="ignore", invalid="ignore"):  # the status tells of weights without bounds
        measured = run.step()
    status = run.status()
    if status is not None and not status.converged:
        raise NumericalError(f"this pass of solver {solver.name!r} failed: {status.reason}")

    history = model.history_ if online.n_seen else {}
    model._keep(known.encoder, latent, known.layout, penalties, run.weights.copy())
    model.online_ = OnlineTraining(solver.name, rng, n_seen, run.state)
    model.one_symbol_ = known.one_symbol
    model.solver_, model.epsilon_, model.epsilon_losses_ = solver.name, epsilon, None
    model.fit_seconds_ = None
    _record(model, history, measured)


def _known(
    model: SequenceLabeler, X: Any, y: FlatLabels, classes: Any, lengths: ArrayLike | None
) -> tuple[_Known, Encoded]:
    """The features and labels of the model, made on the first call, and ``X`` in their terms."""
    given = None if classes is None else LabelSet.of([list(classes)])
    if not hasattr(model, "weights_"):
        encoder = model._new_encoder(X, lengths)
        inputs = encoder.fit(X, lengths)
        names = LabelSet.of(y) if given is None else given
        latent = LatentLabels.of(names, model.latent_states)
        layout = LinearLayout.all_pairs(inputs, len(latent.label_of), boundaries=model.boundaries)
        start = np.zeros(layout.dimension)
        if not latent.plain:
            start = split_states(start, layout, latent, draw_seed(model.random_state))
        return _Known(encoder, latent, layout, start, one_symbol_per_step(inputs)), inputs
    if given is not None and set(given.labels) != set(model.labels_.labels):
        raise DataError(
            f"classes are {list(given.labels)}, but the model knows {list(model.labels_.labels)}; leave "
            "classes out after the first call"
        )
    known = _Known(model.encoder_, model.latent_, model.layout_, model.weights_, model.one_symbol_)
    return known, model.encoder_.transform(X, lengths)


def _online(model: SequenceLabeler, solver: Solver) -> OnlineTraining:
    """Where the last call left off, or a new beginning."""
    online: OnlineTraining | None = getattr(model, "online_", None)
    if online is None:
        return OnlineTraining(solver.name, np.random.default_rng(draw_seed(model.random_state)))
    if online.solver != solver.name:
        raise UnsupportedError(
            f"the last partial_fit was by solver {online.solver!r}, this one asks for {solver.name!r}; keep "
            "to one, or start over with a clone of the model"
        )
    return online


def _online_solver(model: SequenceLabeler, options: Options) -> Any:
    """The solver asked for, or one that suits; it must be able to take up the state of an earlier run."""
    solver = options.solver
    if solver is None:
        solver = automatic_solver(options, model.l2, model.l1, convex=False, online=True)
    if "state" not in inspect.signature(solver.start).parameters:
        raise UnsupportedError(
            f"solver {solver.name!r} needs all data at once; for partial_fit use 'perceptron', "
            "'subgradient', 'sgd', 'adagrad', 'adam', 'minibatch' or 'passive_aggressive'"
        )
    return solver


def _refuse_what_needs_all_data(model: SequenceLabeler, objective: Objective) -> None:
    if not (isinstance(model.transitions, str) and model.transitions == "all"):
        raise UnsupportedError(
            "partial_fit takes no list of allowed transitions; use fit, or transitions='all'"
        )
    if isinstance(model.class_weight, str):
        raise UnsupportedError(
            f"class_weight={model.class_weight!r} needs all data at once; for partial_fit give a dict of "
            "label to weight"
        )
    if not isinstance(model.holdout, str) and model.holdout is not None:
        raise UnsupportedError(
            "partial_fit does not stop early, so it takes no holdout; set holdout=None and watch score(X, y)"
        )
    first = objective.starts_from
    if first is not None and not objective.special and not hasattr(model, "weights_"):
        raise UnsupportedError(
            f"the {objective.name} objective is flat around w = 0; start with partial_fit or fit of "
            f"objective={first.name!r}, then set_params(objective={objective.name!r})"
        )
    if isinstance(objective, Direct) and objective.epsilon in ("auto", "holdout"):
        raise UnsupportedError(
            f"epsilon={objective.epsilon!r} needs all data at once; for partial_fit give a number or 'decay'"
        )


def _record(
    model: SequenceLabeler, history: Mapping[str, list[float]], measured: Mapping[str, float]
) -> None:
    model.history_ = {key: [*history.get(key, []), float(value)] for key, value in measured.items()}
    model.n_iter_ = max(map(len, model.history_.values()), default=0)
    seen = model.online_.n_seen
    model.status_ = Status(
        False, f"partial_fit has seen {seen} sequences; call it again with more", model.n_iter_
    )
