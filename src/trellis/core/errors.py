"""The errors and warnings of Trellis. Each message is one sentence: what is wrong, where, and what to do.

All of them are ``ValueError``s, as scikit-learn users expect. The command line prints the message and exits
with code 2; an exception that is not a ``TrellisError`` is a defect of Trellis and shows its traceback.

Examples
--------
>>> from trellis import SequenceLabeler, errors
>>> try:
...     SequenceLabeler(l2=-1.0).fit([["a"]], [["A"]])
... except errors.TrellisError as error:
...     print(error)
...
l2 is -1.0; give a finite number of at least 0
"""

from __future__ import annotations


class TrellisError(ValueError):
    """The base of all errors.

    ``step`` is the index of the offending step among all steps of the data, if there is one: callers who know
    where the step came from can name the sequence, or the line of a file.

    Examples
    --------
    >>> from trellis import HMM, emissions, errors
    >>> try:
    ...     HMM(0, emissions.Categorical(2)).fit([[0, 1]])
    ... except errors.TrellisError as error:
    ...     print(error)
    ...
    n_states is 0; give a whole number of at least 1
    """

    def __init__(self, message: str, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step


class DataError(TrellisError):
    """Input data or the value of a parameter cannot be used; names the place or the parameter.

    Examples
    --------
    >>> from trellis import SequenceLabeler, errors
    >>> try:
    ...     SequenceLabeler().fit([["a", "b"]], [["A"]])
    ... except errors.DataError as error:
    ...     print(error)
    ...
    sequence 0 has 2 steps in X, but 1 in y; they must be equal...
    """


class InfeasibleError(TrellisError):
    """Constraints or evidence leave no possible output; names the example.

    Examples
    --------
    >>> from trellis import errors
    >>> from trellis.bayesnet import markov_chain
    >>> chain = markov_chain([0, 1], 2, transitions=[[1.0, 0.0], [0.0, 1.0]], initial=[0.5, 0.5])
    >>> try:
    ...     chain.query("x1", {"x1": 0, "x2": 1})
    ... except errors.InfeasibleError as error:
    ...     print(error)
    ...
    the evidence has probability zero: x1=0, x2=1; change or leave out some of it
    """


class ModelFileError(TrellisError):
    """A model file cannot be read or written: missing, damaged, foreign, or from a newer version.

    Examples
    --------
    >>> from trellis import errors, load
    >>> try:
    ...     load("nothing.trellis")
    ... except errors.ModelFileError as error:
    ...     print(error)
    ...
    nothing.trellis: no such file or directory; check the path
    """


class UnsupportedError(TrellisError):
    """Something that is not available, or options that cannot be combined; names the alternative.

    Examples
    --------
    >>> from trellis import SequenceLabeler, errors
    >>> try:
    ...     SequenceLabeler("log", solver="frank_wolfe").fit([["a", "b"]], [["A", "B"]])
    ... except errors.UnsupportedError as error:
    ...     print(str(error).split(";")[0])
    ...
    solver 'frank_wolfe' needs a convex objective made of planes
    """


class NumericalError(TrellisError):
    """A computation lost its precision; names the step, and how to scale the problem.

    Examples
    --------
    >>> from trellis import errors
    >>> issubclass(errors.NumericalError, errors.TrellisError)
    True
    """


class StepError(NumericalError):
    """An iteration broke down and is dropped: the driver ends the run with the point before it, and a status
    that gives this message.

    Examples
    --------
    >>> from trellis import errors
    >>> issubclass(errors.StepError, errors.TrellisError)
    True
    """


class ClusterError(TrellisError):
    """A cluster does not answer, or cannot do the work; names the scheduler or the shard, and what to do."""


class MissingExtraError(TrellisError, ImportError):
    """An optional dependency is not installed; names the extra to install.

    Examples
    --------
    >>> from trellis import errors
    >>> issubclass(errors.MissingExtraError, errors.TrellisError)
    True
    """


class ApproximationWarning(UserWarning):
    """An approximate answer that should not be relied upon: says why and what to do.

    Examples
    --------
    >>> from trellis import errors
    >>> issubclass(errors.ApproximationWarning, UserWarning)
    True
    """


def shown(value: object, longest: int = 60) -> str:
    """``repr(value)`` as an error message has it: on one line, and cut in the middle where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 4 :]}"
