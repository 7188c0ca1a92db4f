"""One call for all of inference: P(targets | evidence), exact or approximate.

    P(t | e) = P(t, e) / P(e),      P(t, e) = sum over everything else of the product of all tables

Exact methods:

* ``"junction_tree"``: the tree is planned once for each model and kept with it; each question runs two
  passes. One target, or each variable by itself.
* ``"elimination"``: variables that cannot matter are dropped, the others are summed out for this question
  alone. One target, or several jointly.
* ``"conditioning"``: a junction tree for each assignment of a few variables (a cutset): less memory, more
  time.
* ``"auto"``: the tree for one target or all variables, and elimination for several targets, or for one target
  where the tree of the whole model is costly.

Approximate methods (``"loopy"``, ``"rejection"``, ``"likelihood_weighting"``, ``"gibbs"``) are never chosen
by themselves, and their answers are marked. Memory is forecast before anything runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from trellis.bayesnet.inference.approximate_posterior import Answer, Evidence, Likelihoods, Targets
from trellis.bayesnet.inference.cutset_conditioning import conditioned
from trellis.bayesnet.inference.model_factors import Model, encode_likelihoods, reduced_factors
from trellis.bayesnet.inference.posterior import MostProbable, Posterior, described
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.junction_tree import JunctionTree
from trellis.factors.junction_tree_choice import MEMORY_LIMIT
from trellis.factors.junction_tree_plan import Forecast
from trellis.factors.variable_elimination import eliminate

EXACT = ("junction_tree", "elimination", "conditioning")
APPROXIMATE = ("loopy", "rejection", "likelihood_weighting", "gibbs")
Order = str | Sequence[str]


def query(
    model: Model,
    targets: Targets = None,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    method: str = "auto",
    **options: Any,
) -> Any:
    """P(targets | evidence).

    Parameters
    ----------
    targets : a variable, several (their joint distribution), or None for each unobserved variable by itself.
    evidence : ``{variable: state}``.
    likelihoods : soft evidence, ``{variable: one weight for each state}``; a dictionary of states will do.
    method : see the head of this module.
    options : ``order`` (an elimination heuristic, or the variables to be summed out, in order) and
        ``memory_limit`` (bytes) of exact methods; those of approximate methods are in their modules.
    """
    if method in APPROXIMATE:
        return _approximate(model, targets, evidence, likelihoods, method, options)
    if method != "auto" and method not in EXACT:
        raise UnsupportedError(
            f"there is no method {method!r}; exact methods: auto, {', '.join(EXACT)}; approximate methods: "
            f"{', '.join(APPROXIMATE)}"
        )
    question = _Question(model, evidence, likelihoods, **options)
    wanted = None if targets is None else model.variables.indices(targets)
    if wanted is not None and not wanted:
        raise DataError("there are no targets; name at least one variable")
    if method == "auto":
        method = (
            "elimination" if wanted and (len(wanted) > 1 or question.tree_is_costly()) else "junction_tree"
        )
    if method == "elimination":
        if wanted is None:
            return {name: question.eliminated((i,)) for i, name in question.unobserved()}
        return question.eliminated(wanted)
    if wanted is not None and len(wanted) > 1:
        raise UnsupportedError(
            f"method={method!r} answers for one target at a time; use method='elimination' for their joint "
            "distribution"
        )
    chosen = [i for i, _ in question.unobserved()] if wanted is None else list(wanted)
    found = question.marginals(chosen, method)
    return found if wanted is None else found[model.names[wanted[0]]]


def mpe(
    model: Model,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    order: Order = "best",
    memory_limit: float = MEMORY_LIMIT,
) -> MostProbable:
    """The most probable assignment of all variables given the evidence: max-product on the junction tree."""
    question = _Question(model, evidence, likelihoods, order=order, memory_limit=memory_limit)
    tree = question.tree()
    found = tree.best_assignment(question.evidence, question.likelihoods)
    if found.log_value == -np.inf:
        raise question.impossible()
    total = tree.log_partition(question.evidence, question.likelihoods)
    states = model.variables.decode(dict(enumerate(found.states.tolist())))
    return MostProbable(states, found.log_value, found.log_value - total)


def log_partition(
    model: Model,
    evidence: Evidence = None,
    *,
    likelihoods: Likelihoods = None,
    order: Order = "best",
    memory_limit: float = MEMORY_LIMIT,
) -> float:
    """log of the sum of the product of all tables at the evidence: in a Bayesian network log P(evidence)."""
    question = _Question(model, evidence, likelihoods, order=order, memory_limit=memory_limit)
    tables, _ = reduced_factors(model, (), question.evidence, question.likelihoods)
    held = {v for table in tables for v in table.variables}
    chosen = question.order_of(held)
    found, _ = eliminate(model.cardinalities, tables, (), order=chosen, memory_limit=memory_limit)
    return found + question.free_states(held)


def log_probability(model: Model, evidence: Evidence = None, **options: Any) -> float:
    """log P(evidence), -inf if impossible; in a factor graph Z with the evidence divided by Z without it."""
    found = log_partition(model, evidence, **options)
    if not model.directed:
        options.pop("likelihoods", None)
        found -= log_partition(model, **options)
    return found


def forecast(model: Model, evidence: Evidence = None, *, order: Order = "best") -> Forecast:
    """What the junction tree needs for all marginals given the evidence, without running it."""
    question = _Question(model, evidence, None, order=order)
    return question.tree().forecast(question.evidence)


class _Question:
    """A model and its evidence in numbers."""

    def __init__(
        self,
        model: Model,
        evidence: Evidence,
        likelihoods: Likelihoods,
        *,
        order: Order = "best",
        memory_limit: float = MEMORY_LIMIT,
    ) -> None:
        self.model = model
        self.evidence = model.variables.encode(evidence or {})
        self.likelihoods = encode_likelihoods(model.variables, likelihoods)
        self.memory_limit = memory_limit
        self.order: str | tuple[int, ...] = (
            order if isinstance(order, str) else model.variables.indices(order)
        )
        self.given = described(model.variables, self.evidence, list(self.likelihoods))

    def tree(self) -> JunctionTree:
        """The junction tree of the model, planned once and kept with it."""
        trees, key = self.model.junction_trees, (self.order, self.memory_limit)
        if key not in trees:
            factors, order = self.model.factors(), self.order_of(range(len(self.model.names)))
            trees[key] = JunctionTree(
                self.model.cardinalities, factors, order=order, memory_limit=self.memory_limit
            )
        return trees[key]

    def order_of(self, summed: Collection[int]) -> str | list[int]:
        """The heuristic, or the variables to be summed out in the order given, which must hold them all."""
        if isinstance(self.order, str):
            return self.order
        missing = set(summed).difference(self.order)
        if missing:
            raise DataError(
                f"the elimination order leaves out {self.model.names[min(missing)]!r}; name every variable "
                "that is summed out"
            )
        return [v for v in self.order if v in summed]

    def tree_is_costly(self) -> bool:
        return self.tree().is_costly

    def unobserved(self) -> list[tuple[int, str]]:
        return [(i, name) for i, name in enumerate(self.model.names) if i not in self.evidence]

    def marginals(self, variables: Sequence[int], method: str) -> dict[str, Posterior]:
        if method == "conditioning":
            found = conditioned(self.tree(), self.evidence, self.likelihoods)
        else:
            found = self.tree().marginals(self.evidence, self.likelihoods)
        if found.log_partition == -np.inf:
            raise self.impossible()
        return {self.model.names[v]: self.posterior((v,), found.of[v], method) for v in variables}

    def eliminated(self, targets: Sequence[int]) -> Posterior:
        model = self.model
        tables, _ = reduced_factors(model, targets, self.evidence, self.likelihoods)
        free = [v for v in targets if v not in self.evidence]
        summed = {v for table in tables for v in table.variables}.difference(free)
        order = self.order_of(summed)
        log_scale, joint = eliminate(
            model.cardinalities, tables, free, order=order, memory_limit=self.memory_limit
        )
        if log_scale == -np.inf:
            raise self.impossible()
        values = joint.values / joint.values.sum()
        whole = np.zeros([len(model.states[v]) for v in targets])
        whole[tuple(self.evidence[v] if v in self.evidence else slice(None) for v in targets)] = values
        return self.posterior(targets, whole, "elimination")

    def posterior(self, targets: Sequence[int], values: FloatArray, method: str) -> Posterior:
        names, states = self.model.names, self.model.states
        return Posterior(
            tuple(names[v] for v in targets), tuple(states[v] for v in targets), values, method, self.given
        )

    def free_states(self, held: set[int]) -> float:
        """log of the states of variables that no table holds: a factor graph sums over them too."""
        if self.model.directed:
            return 0.0
        free = [v for v, _ in self.unobserved() if v not in held]
        return float(np.log(self.model.cardinalities[free]).sum())

    def impossible(self) -> InfeasibleError:
        return InfeasibleError(
            f"the evidence has probability zero: {self.given}; change or leave out some of it"
            if self.given
            else "the product of all factors is zero everywhere; some of them contradict each other"
        )


def _approximate(
    model: Model,
    targets: Targets,
    evidence: Evidence,
    likelihoods: Likelihoods,
    method: str,
    options: Mapping[str, Any],
) -> Answer:
    from trellis.bayesnet.inference import loopy_propagation as loopy
    from trellis.bayesnet.inference.sampling import forward_sampling as sampling
    from trellis.bayesnet.inference.sampling import gibbs

    run: Any = {
        "loopy": loopy.loopy,
        "gibbs": gibbs.gibbs,
        "rejection": sampling.rejection,
        "likelihood_weighting": sampling.likelihood_weighting,
    }[method]
    answer: Answer = run(model, targets, evidence, likelihoods=likelihoods, **options)
    return answer
