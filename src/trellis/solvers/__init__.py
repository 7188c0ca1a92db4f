"""Solvers: each minimises a problem's sum of objectives plus the regulariser; one loop runs them all.

Solvers are imported on first use: their kernels take time to load.
"""

from __future__ import annotations

from dataclasses import fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trellis.errors import UnsupportedError
from trellis.solvers.loop import EarlyStopping, Solution, Solver, Status, minimise

# name on the command line and in ``solver=`` -> class, module, iterations if none are asked for
_SOLVERS = {
    "perceptron": ("Perceptron", "perceptron", 20),
    "subgradient": ("Subgradient", "stochastic", 100),
    "sgd": ("SGD", "stochastic", 50),
    "adagrad": ("AdaGrad", "stochastic", 50),
    "adam": ("Adam", "stochastic", 50),
    "sag": ("SAG", "sag", 100),
    "lbfgs": ("LBFGS", "quasi_newton", 1000),
    "owlqn": ("OWLQN", "quasi_newton", 1000),
    "cutting_plane": ("CuttingPlane", "cutting_plane", 1000),
    "cccp": ("CCCP", "cccp", 100),
    "frank_wolfe": ("FrankWolfe", "frank_wolfe", 500),
    "minibatch": ("MiniBatch", "minibatch", 30),
}
SOLVERS = tuple(_SOLVERS)

# solvers of problems that no command line option chooses
_OTHERS = {
    "PassiveAggressive": "passive_aggressive",
    # differences of convex functions: another loop
    "ArrayDC": "dc",
    "DCProblem": "dc",
    "DCSolution": "dc",
    "fit_mixture": "mixture",
    "minimise_dc": "dc",
    "truncated_least_squares": "robust_regression",
}

if TYPE_CHECKING:
    from trellis.solvers.cccp import CCCP
    from trellis.solvers.cutting_plane import CuttingPlane
    from trellis.solvers.dc import ArrayDC, DCProblem, DCSolution, minimise_dc
    from trellis.solvers.frank_wolfe import FrankWolfe
    from trellis.solvers.minibatch import MiniBatch
    from trellis.solvers.mixture import fit_mixture
    from trellis.solvers.passive_aggressive import PassiveAggressive
    from trellis.solvers.perceptron import Perceptron
    from trellis.solvers.quasi_newton import LBFGS, OWLQN
    from trellis.solvers.robust_regression import truncated_least_squares
    from trellis.solvers.sag import SAG
    from trellis.solvers.stochastic import SGD, AdaGrad, Adam, Subgradient

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
    "EarlyStopping",
    "FrankWolfe",
    "MiniBatch",
    "PassiveAggressive",
    "Perceptron",
    "Solution",
    "Solver",
    "Status",
    "Subgradient",
    "default_iterations",
    "fit_mixture",
    "minimise",
    "minimise_dc",
    "solver_of",
    "truncated_least_squares",
]


def __getattr__(name: str) -> Any:
    if name in _OTHERS:
        return getattr(import_module(f"trellis.solvers.{_OTHERS[name]}"), name)
    for class_name, module, _ in _SOLVERS.values():
        if name == class_name:
            return getattr(import_module(f"trellis.solvers.{module}"), name)
    raise AttributeError(f"module 'trellis.solvers' has no attribute {name!r}")


def solver_of(solver: str | Solver, tol: float | None = None) -> Solver:
    """A solver by name, or as given; ``tol`` replaces its tolerance."""
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            raise UnsupportedError(
                f"solver={solver!r} is not known; choose one of auto, {', '.join(SOLVERS)}"
            )
        class_name, module, _ = _SOLVERS[solver]
        solver = getattr(import_module(f"trellis.solvers.{module}"), class_name)()
    record: Any = solver
    if tol is not None:
        if "tol" not in {f.name for f in fields(record)}:
            raise UnsupportedError(f"solver {record.name!r} has no tolerance; set max_iter in place of tol")
        record = replace(record, tol=tol)
    result: Solver = record
    return result


def default_iterations(solver: Solver) -> int:
    return _SOLVERS[solver.name][2] if solver.name in _SOLVERS else 100
