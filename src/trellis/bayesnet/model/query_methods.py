"""The questions about probabilities that networks and factor graphs share; each has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from trellis.bayesnet.inference.flat_factors import Model
    from trellis.factors.junction_tree import JunctionTree


class Questions:
    """What a ``BayesianNetwork`` and a ``FactorGraph`` can be asked."""

    @property
    def _model(self) -> Model:
        return cast("Model", self)

    @cached_property
    def junction_trees(self) -> dict[Any, JunctionTree]:
        """Trees planned so far, by their options: models never change, so that a plan serves for good."""
        return {}

    def query(
        self,
        targets: str | Sequence[str] | None = None,
        evidence: Mapping[str, Any] | None = None,
        *,
        method: str = "auto",
        **options: Any,
    ) -> Any:
        """P(targets | evidence): see :func:`trellis.bayesnet.inference.query.query`."""
        from trellis.bayesnet.inference.query import query

        return query(self._model, targets, evidence, method=method, **options)

    def mpe(self, evidence: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The most probable assignment given the evidence: see ``mpe``."""
        from trellis.bayesnet.inference.query import mpe

        return mpe(self._model, evidence, **options)

    def log_probability(self, evidence: Mapping[str, Any] | None = None, **options: Any) -> float:
        """log P(evidence): see :func:`trellis.bayesnet.inference.query.log_probability`."""
        from trellis.bayesnet.inference.query import log_probability

        return log_probability(self._model, evidence, **options)

    def forecast(self, evidence: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """What exact inference will need: see :func:`trellis.bayesnet.inference.query.forecast`."""
        from trellis.bayesnet.inference.query import forecast

        return forecast(self._model, evidence, **options)

    def explain_elimination(
        self,
        targets: str | Sequence[str],
        evidence: Mapping[str, Any] | None = None,
        order: str | Sequence[str] = "best",
    ) -> Any:
        """Variable elimination step by step: see :mod:`trellis.bayesnet.inference.elimination_steps`."""
        from trellis.bayesnet.inference.elimination_steps import explain_elimination

        return explain_elimination(self._model, targets, evidence, order)

    def predict(self, frame: Any, targets: str | Sequence[str] | None = None, **options: Any) -> Any:
        """The most probable state of each target for each row of evidence: see :mod:`.frames`."""
        from trellis.bayesnet.inference.evidence_frames import predict

        return predict(self._model, frame, targets, **options)

    def predict_proba(self, frame: Any, targets: str | Sequence[str] | None = None, **options: Any) -> Any:
        """P(target | row) for each row of evidence: see :mod:`trellis.bayesnet.inference.evidence_frames`."""
        from trellis.bayesnet.inference.evidence_frames import predict_proba

        return predict_proba(self._model, frame, targets, **options)
