"""The errors of Trellis: one clear sentence that says what is wrong, where, and what to do.

All of them are ``ValueError``s, as scikit-learn users expect. The command line prints the sentence and
exits with code 2; anything that is not a ``TrellisError`` is a defect of Trellis and shows its traceback.
"""

from __future__ import annotations


class TrellisError(ValueError):
    """Something the user gave cannot be used.

    ``step`` is the index of the step to blame among all steps of the data, where one is: who knows the
    sequence or the file that it came from can name the place.
    """

    def __init__(self, message: str, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step


class DataError(TrellisError):
    """Input data are malformed: names the file and line, or the sequence index and the shape."""


class InfeasibleError(TrellisError):
    """A sequence has no allowed labelling under the constraints: names the sequence."""


class ModelFileError(TrellisError):
    """A model file is damaged, foreign, or from a newer version."""


class UnsupportedError(TrellisError):
    """A question that a structure cannot answer exactly, or options that do not go together.

    The message names the alternative.
    """


class NumericalError(TrellisError):
    """A computation lost its digits: names the step, and how to scale the problem."""


class CertificateError(NumericalError):
    """A bound that must not rise has risen beyond rounding: names the iteration and what must be wrong."""


class MissingExtraError(TrellisError, ImportError):
    """An optional dependency is not installed: names the extra to install."""
