"""Declared parameters: constructor, checks and docstring follow from one line each."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from trellis.core.errors import DataError
from trellis.core.estimator import Model
from trellis.core.parameters import Flag, choice, fitted, integer, number, parameter


class Base(Model):
    """A base."""

    width: int = parameter(default=5, doc="Steps to average over.", constraint=integer(minimum=1))


class Smoother(Base):
    """Smooths."""

    name: str = parameter(doc="What it is called.", kw_only=False)
    kind: str = parameter(default="mean", doc="How.", constraint=choice("mean", "median"))
    rate: float | None = parameter(
        default=None, doc="How fast.", constraint=number(0.0, 1.0, above=True, below=True, none=True)
    )
    loud: bool = parameter(default=False, constraint=Flag())
    weights_: Any = fitted("The weights.")


def test_the_constructor_takes_what_is_declared() -> None:
    model = Smoother("a", width=3)
    assert (model.name, model.width, model.kind, model.rate) == ("a", 3, "mean", None)
    assert list(inspect.signature(Smoother).parameters) == ["name", "width", "kind", "rate", "loud"]
    assert not hasattr(model, "weights_")
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(TypeError, match="Smoother: missing a required argument: 'name'"):
        Smoother()
    with pytest.raises(TypeError, match="Smoother has no parameter 'widht'; did you mean 'width'"):
        Smoother("a", widht=3)


def test_a_class_keeps_the_order_of_its_base() -> None:
    """Also of what the base declared again: there it stands where the base has it."""

    class Again(Smoother):
        """Smooths again."""

        width: int = parameter(default=7, constraint=integer(minimum=1))

    class Heir(Again):
        """Declares nothing."""

    assert list(Heir.declared_parameters) == ["name", "kind", "rate", "loud", "width"]
    assert list(Heir.declared_parameters) == list(Again.declared_parameters)


def test_the_docstring_lists_parameters_in_the_order_of_the_signature() -> None:
    """Those that a subclass takes by position stand before those of its base, as in a call."""

    class Renamed(Smoother):
        """Smooths."""

        title: str = parameter(default="", doc="Its heading.", kw_only=False)

    listed = list(Renamed.declared_parameters)
    assert listed == list(inspect.signature(Renamed).parameters)
    assert listed.index("title") < listed.index("width")
    found = [str(Renamed.__doc__).index(f"\n{name} :") for name in listed]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width is 0; give a whole number of at least 1"),
        ({"width": 2.5}, "width is 2.5"),
        ({"width": True}, "width is True"),
        ({"kind": "mode"}, "kind is 'mode'; give 'mean' or 'median'"),
        ({"kind": np.zeros(2)}, "kind is array"),
        ({"rate": 0.0}, "rate is 0.0; give a finite number above 0 and below 1 or None"),
        ({"rate": 1.0}, "rate is 1.0; give a finite number above 0 and below 1 or None"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"rate": float("inf")}, "rate is inf"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"loud": 1}, "loud is 1; give True or False"),
    ],
)
def test_values_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Smoother("a", **options)._check_parameters()


def test_values_in_range_pass() -> None:
    for options in ({}, {"width": np.int64(2)}, {"rate": np.float64(0.1)}, {"loud": np.bool_(True)}):
        Smoother("a", **options)._check_parameters()


def test_the_docstring_lists_parameters_and_attributes() -> None:
    text = inspect.getdoc(Smoother) or ""
    assert text.startswith("Smooths.")
    assert "width : a whole number of at least 1, default 5\n    Steps to average over." in text
    assert "weights_\n    The weights." in text


def test_the_example_stays_the_last_section() -> None:
    class Shown(Base):
        """Smooths.

        Examples
        --------
        >>> 1 + 1
        2
        """

        weights_: Any = fitted("The weights.")

    text = Shown.__doc__ or ""
    assert text.startswith("Smooths.\n\nParameters\n")
    assert text.index("Attributes\n") < text.index("Examples\n--------\n")
    assert text.endswith(">>> 1 + 1\n2\n")
    assert text.count("Examples") == 1
