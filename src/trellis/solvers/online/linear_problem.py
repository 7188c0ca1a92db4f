"""What the online solvers need of a problem: the parts of a linear chain model, not only its value and
gradient."""

from __future__ import annotations

from typing import Any

from trellis.core.errors import UnsupportedError
from trellis.structures.chain.problem.chain_problem import LinearChainProblem


def linear_chain_problem(problem: Any, solver: str) -> LinearChainProblem:
    """The problem as given, if its passes can run in kernels; no solver that asks here can handle an L1
    norm."""
    if not isinstance(problem, LinearChainProblem):
        raise UnsupportedError(
            f"solver {solver!r} needs a loss that is a sum over steps, or 0-1; use solver='minibatch' for "
            "this one"
        )
    if problem.l1 > 0:
        raise UnsupportedError(f"solver {solver!r} cannot handle an L1 norm (l1 > 0); use solver='owlqn'")
    return problem
