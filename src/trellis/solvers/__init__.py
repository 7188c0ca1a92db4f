"""Solvers: each minimises a problem's sum of objectives plus the regulariser; one driver runs them all.

Solvers are imported on first use: their kernels take time to load.

Examples
--------
>>> from trellis import solvers
>>> solvers.get_solver("lbfgs").name
'lbfgs'
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from trellis.core.errors import DataError, UnsupportedError
from trellis.core.foreign_names import unknown_choice
from trellis.core.lazy import lazy_exports
from trellis.core.status import Status as Status

# name on the command line and in ``solver=`` -> class, default number of iterations
_SOLVERS = {
    "perceptron": ("Perceptron", 20),
    "subgradient": ("Subgradient", 100),
    "sgd": ("SGD", 50),
    "adagrad": ("AdaGrad", 50),
    "adam": ("Adam", 50),
    "sag": ("SAG", 100),
    "lbfgs": ("LBFGS", 1000),
    "owlqn": ("OWLQN", 1000),
    "cutting_plane": ("CuttingPlane", 1000),
    "cccp": ("CCCP", 100),
    "frank_wolfe": ("FrankWolfe", 500),
    "minibatch": ("MiniBatch", 30),
    "fine_tuning": ("FineTuning", 20),
    "passive_aggressive": ("PassiveAggressive", 100),
}
SOLVERS = tuple(_SOLVERS)

if TYPE_CHECKING:
    from trellis.solvers.dc.algorithm import ArrayDC as ArrayDC
    from trellis.solvers.dc.algorithm import DCProblem as DCProblem
    from trellis.solvers.dc.algorithm import DCSolution as DCSolution
    from trellis.solvers.dc.cccp import CCCP as CCCP
    from trellis.solvers.online.fine_tuning import FineTuning as FineTuning
    from trellis.solvers.online.minibatch import MiniBatch as MiniBatch
    from trellis.solvers.online.passive_aggressive import PassiveAggressive as PassiveAggressive
    from trellis.solvers.online.perceptron import Perceptron as Perceptron
    from trellis.solvers.online.sag import SAG as SAG
    from trellis.solvers.online.stochastic import SGD as SGD
    from trellis.solvers.online.stochastic import AdaGrad as AdaGrad
    from trellis.solvers.online.stochastic import Adam as Adam
    from trellis.solvers.online.stochastic import Subgradient as Subgradient
    from trellis.solvers.planes.cutting_plane import CuttingPlane as CuttingPlane
    from trellis.solvers.planes.frank_wolfe import FrankWolfe as FrankWolfe
    from trellis.solvers.quasi_newton.lbfgs import LBFGS as LBFGS
    from trellis.solvers.quasi_newton.owlqn import OWLQN as OWLQN
    from trellis.solvers.run import Solution as Solution
    from trellis.solvers.run import Solver as Solver

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "dc.algorithm": "ArrayDC DCProblem DCSolution",
        "dc.cccp": "CCCP",
        "online.fine_tuning": "FineTuning",
        "online.minibatch": "MiniBatch",
        "online.passive_aggressive": "PassiveAggressive",
        "online.perceptron": "Perceptron",
        "online.sag": "SAG",
        "online.stochastic": "SGD AdaGrad Adam Subgradient",
        "planes.cutting_plane": "CuttingPlane",
        "planes.frank_wolfe": "FrankWolfe",
        "quasi_newton.lbfgs": "LBFGS",
        "quasi_newton.owlqn": "OWLQN",
        "run": "Solution Solver",
    },
)


_WITHOUT = {  # what to do where a solver does not have an option
    "tol": "has no tolerance; set max_iter instead of tol",
    "delta": "does not look at how the objective falls; leave out delta, which 'lbfgs' and 'owlqn' have",
    "period": "does not look at how the objective falls; leave out period, which 'lbfgs' and 'owlqn' have",
}


def get_solver(solver: str | Solver, tol: float | None = None, **options: float | None) -> Solver:
    """A solver by name, or as given; ``tol``, ``delta`` and ``period`` replace its own where they are not
    None."""
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            raise DataError(unknown_choice("solver", solver, ["auto", *SOLVERS]))
        solver = __getattr__(_SOLVERS[solver][0])()
    record: Any = solver
    given = {name: value for name, value in {"tol": tol, **options}.items() if value is not None}
    if given:
        known = {f.name for f in fields(record)}
        for name in given:
            if name not in known:
                raise UnsupportedError(f"solver {record.name!r} {_WITHOUT[name]}")
        record = replace(record, **given)
    result: Solver = record
    return result


def default_iterations(solver: Solver) -> int:
    """The iterations of a solver where none are asked for: those of its schedule, if it has one; 100 for one
    from outside the package."""
    passes = getattr(solver, "passes", None)
    if isinstance(passes, int):
        return passes
    return _SOLVERS[solver.name][1] if solver.name in _SOLVERS else 100
