"""The errors and warnings of Trellis. Each message is one sentence: what is wrong, where, and what to do.

All of them are ``ValueError``s, as scikit-learn users expect. The command line prints the message and exits
with code 2; an exception that is not a ``TrellisError`` is a defect of Trellis and shows its traceback.
"""

from __future__ import annotations


class TrellisError(ValueError):
    """The base of all errors.

    ``step`` is the index of the offending step among all steps of the data, if there is one: callers who know
    where the step came from can name the sequence, or the line of a file.
    """

    def __init__(self, message: str, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step


class DataError(TrellisError):
    """Input data or the value of a parameter cannot be used; names the place or the parameter."""


class InfeasibleError(TrellisError):
    """Constraints or evidence leave no possible output; names the example."""


class ModelFileError(TrellisError):
    """A model file cannot be read or written: missing, damaged, foreign, or from a newer version."""


class UnsupportedError(TrellisError):
    """Something that is not available, or options that cannot be combined; names the alternative."""


class NumericalError(TrellisError):
    """A computation lost its precision; names the step, and how to scale the problem."""


class StepError(NumericalError):
    """An iteration broke down and is dropped: the driver ends the run with the point before it, and a status
    that gives this message."""


class ClusterError(TrellisError):
    """A cluster does not answer, or cannot do the work; names the scheduler or the shard, and what to do."""


class MissingExtraError(TrellisError, ImportError):
    """An optional dependency is not installed; names the extra to install."""


class ApproximationWarning(UserWarning):
    """An approximate answer that should not be relied upon: says why and what to do."""


def shown(value: object, longest: int = 60) -> str:
    """``repr(value)`` as an error message has it: on one line, and cut in the middle where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 4 :]}"
