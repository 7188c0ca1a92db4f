"""Solvers: each minimises a problem's sum of objectives plus the regulariser; one loop runs them all.

Solvers are imported on first use: their kernels take time to load.
"""

from __future__ import annotations

from dataclasses import fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trellis.core.errors import DataError, UnsupportedError
from trellis.core.status import Status
from trellis.solvers.run import Solution, Solver

# name on the command line and in ``solver=`` -> class, module, iterations if none are asked for
_SOLVERS = {
    "perceptron": ("Perceptron", "online.perceptron", 20),
    "subgradient": ("Subgradient", "online.stochastic", 100),
    "sgd": ("SGD", "online.stochastic", 50),
    "adagrad": ("AdaGrad", "online.stochastic", 50),
    "adam": ("Adam", "online.stochastic", 50),
    "sag": ("SAG", "online.sag", 100),
    "lbfgs": ("LBFGS", "quasi_newton.lbfgs", 1000),
    "owlqn": ("OWLQN", "quasi_newton.lbfgs", 1000),
    "cutting_plane": ("CuttingPlane", "planes.cutting_plane", 1000),
    "cccp": ("CCCP", "dc.cccp", 100),
    "frank_wolfe": ("FrankWolfe", "planes.frank_wolfe", 500),
    "minibatch": ("MiniBatch", "online.minibatch", 30),
    "passive_aggressive": ("PassiveAggressive", "online.passive_aggressive", 100),
}
SOLVERS = tuple(_SOLVERS)

# class -> module
_MODULES = {
    **{class_name: module for class_name, module, _ in _SOLVERS.values()},
    **dict.fromkeys(("ArrayDC", "DCProblem", "DCSolution"), "dc.algorithm"),
}

if TYPE_CHECKING:
    from trellis.solvers.dc.algorithm import ArrayDC, DCProblem, DCSolution
    from trellis.solvers.dc.cccp import CCCP
    from trellis.solvers.online.minibatch import MiniBatch
    from trellis.solvers.online.passive_aggressive import PassiveAggressive
    from trellis.solvers.online.perceptron import Perceptron
    from trellis.solvers.online.sag import SAG
    from trellis.solvers.online.stochastic import SGD, AdaGrad, Adam, Subgradient
    from trellis.solvers.planes.cutting_plane import CuttingPlane
    from trellis.solvers.planes.frank_wolfe import FrankWolfe
    from trellis.solvers.quasi_newton.lbfgs import LBFGS, OWLQN

__all__ = [
    "CCCP",
    "LBFGS",
    "OWLQN",
    "SAG",
    "SGD",
    "SOLVERS",
    "AdaGrad",
    "Adam",
    "ArrayDC",
    "CuttingPlane",
    "DCProblem",
    "DCSolution",
    "FrankWolfe",
    "MiniBatch",
    "PassiveAggressive",
    "Perceptron",
    "Solution",
    "Solver",
    "Status",
    "Subgradient",
    "default_iterations",
    "get_solver",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'trellis.solvers' has no attribute {name!r}")
    return getattr(import_module(f"trellis.solvers.{_MODULES[name]}"), name)


def get_solver(solver: str | Solver, tol: float | None = None) -> Solver:
    """A solver by name, or as given; ``tol`` replaces its tolerance."""
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            raise DataError(f"solver={solver!r} is not known; choose one of auto, {', '.join(SOLVERS)}")
        solver = __getattr__(_SOLVERS[solver][0])()
    record: Any = solver
    if tol is not None:
        if "tol" not in {f.name for f in fields(record)}:
            raise UnsupportedError(f"solver {record.name!r} has no tolerance; set max_iter in place of tol")
        record = replace(record, tol=tol)
    result: Solver = record
    return result


def default_iterations(solver: Solver) -> int:
    """The iterations of a solver where none are asked for; 100 for one from outside the package."""
    return _SOLVERS[solver.name][2] if solver.name in _SOLVERS else 100
