"""The questions about probabilities that networks and factor graphs share; each has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Questions:
    """What a ``BayesianNetwork`` and a ``FactorGraph`` can be asked."""

    def query(
        self,
        targets: str | Sequence[str],
        evidence: Mapping[str, Any] | None = None,
        *,
        method: str = "auto",
        **options: Any,
    ) -> Any:
        """P(targets | evidence): see :func:`trellis.bayesnet.query.query`."""
        from trellis.bayesnet.query import query

        return query(self, targets, evidence, method=method, **options)

    def mpe(self, evidence: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The most probable assignment given the evidence: see :func:`trellis.bayesnet.query.mpe`."""
        from trellis.bayesnet.query import mpe

        return mpe(self, evidence, **options)

    def predict(self, frame: Any, targets: str | Sequence[str] | None = None, **options: Any) -> Any:
        """The most probable state of each target for each row of evidence: see :mod:`.frames`."""
        from trellis.bayesnet.frames import predict

        return predict(self, frame, targets, **options)

    def predict_proba(self, frame: Any, targets: str | Sequence[str] | None = None, **options: Any) -> Any:
        """P(target | row) for each row of evidence: see :mod:`trellis.bayesnet.frames`."""
        from trellis.bayesnet.frames import predict_proba

        return predict_proba(self, frame, targets, **options)
