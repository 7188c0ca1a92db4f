"""A labeller of sequences as a classifier of rows: each row is a sequence of one step.

scikit-learn's estimator checks speak of classifiers that take one matrix. Rows become an array, and nothing
else is checked or converted here, so that what the checks find is the labeller's.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted


def as_rows(X: Any) -> Any:
    return X if issparse(X) else np.asarray(X)


class OneStepClassifier(ClassifierMixin, BaseEstimator):
    def __init__(self, labeler: Any = None) -> None:
        self.labeler = labeler

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = as_rows(X), np.asarray(y)
        weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
        self.labeler_ = clone(self.labeler).fit(X, y, lengths=np.ones(X.shape[0], int), **weights)
        self.classes_ = np.asarray(self.labeler_.labels_.labels)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any) -> Any:
        found = self._ask("predict", X)
        return np.array([label for row in found for label in row])

    def predict_proba(self, X: Any) -> Any:
        return np.concatenate(self._ask("predict_marginals", X))

    def _ask(self, question: str, X: Any) -> Any:
        check_is_fitted(self)
        X = as_rows(X)
        return getattr(self.labeler_, question)(X, lengths=np.ones(X.shape[0], int))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
