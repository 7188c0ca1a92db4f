"""Names from other libraries lead to parameters that exist."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import typer

from trellis import HMM, GraphLabeler, SequenceLabeler
from trellis.cli.app import app
from trellis.core.errors import DataError
from trellis.core.foreign_names import FOREIGN_CHOICES, FOREIGN_NAMES, translate
from trellis.losses.labelings import LOSSES
from trellis.objectives.records import OBJECTIVES
from trellis.solvers import SOLVERS


def test_every_name_of_ours_is_a_parameter_or_an_option() -> None:
    train = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    options = {name[2:].replace("-", "_") for param in train.params for name in param.opts}
    models = (SequenceLabeler, GraphLabeler, HMM)
    known = options | set(chain.from_iterable(model.declared_parameters for model in models))
    assert {name.ours for name in FOREIGN_NAMES} <= known
    for model in models:
        for name in FOREIGN_NAMES:
            found = translate(name.theirs, model.declared_parameters)
            assert found is None or found.ours in model.declared_parameters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SequenceLabeler(c2=1), r"'l2' \(l2 = 2 \* c2\)"),
        (lambda: SequenceLabeler(C=1), r"'l2' \(l2 = 1 / C\)"),
        (lambda: SequenceLabeler(algorithm="lbfgs"), "'solver'"),
        (lambda: SequenceLabeler(all_possible_transitions=True), "weights='all'"),
        (lambda: HMM(n_components=3), "'n_states'"),
        (lambda: HMM(3, covariance_type="full"), r"emissions.Gaussian\('full'\)"),
        (lambda: HMM(3, n_iter=10), "'max_iter'"),
    ],
)
def test_constructors_translate(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"did you mean {message}|did you mean .*{message}"):
        make()


def test_set_params_translates() -> None:
    with pytest.raises(ValueError, match=r"Invalid parameter 'c1'.*did you mean 'l1' \(l1 = c1\)"):
        SequenceLabeler().set_params(c1=1.0)


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"objective": "crf"}, "'log'"),
        ({"objective": "SVM"}, "'margin'"),
        ({"objective": "logg"}, "'log'"),
        ({"solver": "L-BFGS"}, "'lbfgs'"),
        ({"solver": "l2sgd"}, "'sgd'"),
        ({"loss": "f1"}, "'span_f1'"),
    ],
)
def test_choices_of_other_libraries_are_translated(options: dict[str, str], meant: str) -> None:
    with pytest.raises(DataError, match=rf"is not known; choose one of .* \(did you mean {meant}\?\)"):
        SequenceLabeler(**options).fit([["a"]], [["A"]])


def test_every_translated_choice_exists() -> None:
    assert set(FOREIGN_CHOICES.values()) <= {*OBJECTIVES, *SOLVERS, *LOSSES}
    assert not set(FOREIGN_CHOICES) & {*OBJECTIVES, *SOLVERS, *LOSSES}


def test_nothing_is_guessed_for_a_name_like_none_of_them() -> None:
    with pytest.raises(DataError) as error:
        SequenceLabeler("qqq").fit([["a"]], [["A"]])
    assert "did you mean" not in str(error.value)
