"""Models keep scikit-learn's protocol without being of its class, and do not import it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import sklearn.utils
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from trellis import HMM, GraphLabeler, LinearGaussian, SequenceLabeler

X = [[{"word": word, "upper": word[0].isupper()} for word in ("Ann", "met", "Bob")]] * 20
Y = [["B", "O", "B"]] * 20
MODELS = [SequenceLabeler(l2=3.0), HMM(3, "gaussian"), GraphLabeler(), LinearGaussian(n_states=2)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_parameters_tags_and_copies(model: SequenceLabeler) -> None:
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    if hasattr(sklearn.utils, "get_tags"):  # since scikit-learn 1.6
        assert sklearn.utils.get_tags(model).estimator_type is None
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(ValueError, match=r"Invalid parameter 'l3' .* it has .*random_state"):
        twin.set_params(l3=1.0)
    assert twin.set_params(random_state=7) is twin
    assert twin.get_params()["random_state"] == 7
    assert model.get_params()["random_state"] is not twin.get_params()["random_state"]


def test_a_representation_names_what_is_not_by_default() -> None:
    assert repr(SequenceLabeler()) == "SequenceLabeler()"
    assert repr(SequenceLabeler(l2=3.0, solver="lbfgs")) == "SequenceLabeler(solver='lbfgs', l2=3.0)"
    assert repr(LinearGaussian(n_states=2, transition=np.eye(2))).startswith("LinearGaussian(")
    assert "SequenceLabeler" in str(SequenceLabeler()._repr_html_())


def test_in_a_pipeline_and_a_search() -> None:
    model = make_pipeline(SequenceLabeler(verbose=False, max_iter=5))
    assert model.get_params()["sequencelabeler__l2"] == 1.0
    found = GridSearchCV(model, {"sequencelabeler__l2": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert found.best_estimator_.predict(X[:1]) == Y[:1]
    assert cross_val_score(SequenceLabeler(verbose=False, max_iter=5), X, Y, cv=2).tolist() == [1.0, 1.0]
    check_is_fitted(found.best_estimator_)


def test_a_first_fit_imports_neither_scikit_learn_nor_pandas() -> None:
    code = (
        "import sys\nfrom trellis import SequenceLabeler\n"
        "rows = [[{'a': 1}, {'b': 1}]] * 3\n"
        "SequenceLabeler(max_iter=2, verbose=False).fit(rows, [['A', 'B']] * 3).predict(rows)\n"
        "print(*sorted({'sklearn', 'pandas', 'scipy.stats', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
