"""Which QP solver for the cutting-plane dual?

    min_{alpha >= 0, sum alpha <= 1}  1/2 alpha' G alpha - b' alpha

over the planes of a 1-slack run: G is the Gram matrix of subgradients, dense, a few dozen to a few hundred
rows, and nearly singular, because late planes hardly differ. The same growing problems (multiclass hinge on
the digit images, three regularisers) go to every solver. Printed per solver: CPU time for all problems,
failures, and the largest relative duality gap  max(0, max_j r_j) - alpha.r,  r = b - G alpha,  of the
answers after clipping them to the simplex.

    python benchmarks/qp_solvers.py [--planes 150]      (solvers that are not installed are left out)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from _common import parser

Array = np.ndarray[Any, np.dtype[np.float64]]
Solver = Callable[[Array, Array, Array], Array]
RIDGE = 1e-11  # for the solvers that need a positive definite matrix; the largest diagonal entry is 1


def with_daqp(G: Array, b: Array, row: Array) -> Array:
    """Dual active set; the ridge is what its Cholesky factor needs."""
    import daqp

    m = len(b)
    bounds = np.r_[np.full(m, 1e30), 1.0]
    x, _, flag, _ = daqp.solve(
        G + RIDGE * np.eye(m),
        -b,
        row[None],
        bounds,
        np.r_[np.zeros(m), -1e30],
        iter_limit=10_000,
        primal_tol=1e-12,
        dual_tol=1e-12,
    )
    return check(flag == 1, x)


def with_daqp_proximal(G: Array, b: Array, row: Array) -> Array:
    """The same with DAQP's own treatment of singular matrices: proximal-point iterations."""
    import daqp

    m = len(b)
    bounds = np.r_[np.full(m, 1e30), 1.0]
    x, _, flag, _ = daqp.solve(
        G,
        -b,
        row[None],
        bounds,
        np.r_[np.zeros(m), -1e30],
        eps_prox=1e-6,
        iter_limit=100_000,
        primal_tol=1e-12,
        dual_tol=1e-12,
    )
    return check(flag == 1, x)


def with_piqp(G: Array, b: Array, row: Array) -> Array:
    """Interior point with proximal terms, dense."""
    import piqp

    m = len(b)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = 1e-13, 1e-13
    solver.settings.eps_duality_gap_abs, solver.settings.eps_duality_gap_rel = 1e-13, 1e-13
    solver.setup(
        np.asfortranarray(G),
        -b,
        None,
        None,
        np.asfortranarray(row[None]),
        np.array([-1e30]),
        np.array([1.0]),
        np.zeros(m),
        None,
    )
    status = solver.solve()
    return check(status == piqp.PIQP_SOLVED, solver.result.x)


def with_clarabel(G: Array, b: Array, row: Array) -> Array:
    """Interior point, sparse."""
    import clarabel

    m = len(b)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    rows = sp.vstack([-sp.eye(m), row[None]]).tocsc()
    cones = [clarabel.NonnegativeConeT(m + 1)]
    solver = clarabel.DefaultSolver(
        sp.triu(sp.csc_matrix(G)).tocsc(), -b, rows, np.r_[np.zeros(m), 1.0], cones, settings
    )
    solution = solver.solve()
    return check("Solved" in str(solution.status), np.array(solution.x))


def with_osqp(G: Array, b: Array, row: Array) -> Array:
    """Operator splitting."""
    import osqp

    m = len(b)
    solver = osqp.OSQP()
    rows = sp.vstack([sp.eye(m), row[None]]).tocsc()
    solver.setup(
        sp.triu(sp.csc_matrix(G)).tocsc(),
        -b,
        rows,
        np.r_[np.zeros(m), -np.inf],
        np.r_[np.full(m, np.inf), 1.0],
        verbose=False,
        eps_abs=1e-9,
        eps_rel=1e-9,
        max_iter=20_000,
        polishing=False,
    )
    result = solver.solve(raise_error=False)
    return check("solved" in result.info.status, result.x)


def with_quadprog(G: Array, b: Array, row: Array) -> Array:
    """Goldfarb-Idnani (GPL: measured for comparison only)."""
    import quadprog

    m = len(b)
    constraints = np.column_stack([np.eye(m), -row])
    try:
        x = quadprog.solve_qp(G + RIDGE * np.eye(m), b, constraints, np.r_[np.zeros(m), -1.0])[0]
    except ValueError:
        return check(False, b)
    return check(True, x)


def with_highs(G: Array, b: Array, row: Array) -> Array:
    """Primal active set with a null-space method."""
    import highspy

    m = len(b)
    lower = sp.tril(sp.csc_matrix(G)).tocsc()
    model = highspy.HighsModel()
    model.lp_.num_col_, model.lp_.num_row_ = m, 1
    model.lp_.col_cost_, model.lp_.col_lower_, model.lp_.col_upper_ = (
        -b,
        np.zeros(m),
        np.full(m, highspy.kHighsInf),
    )
    model.lp_.row_lower_, model.lp_.row_upper_ = np.array([-highspy.kHighsInf]), np.array([1.0])
    model.lp_.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.lp_.a_matrix_.start_, model.lp_.a_matrix_.index_ = np.array([0, m]), np.arange(m)
    model.lp_.a_matrix_.value_ = row
    model.hessian_.dim_, model.hessian_.format_ = m, highspy.HessianFormat.kTriangular
    model.hessian_.start_, model.hessian_.index_ = lower.indptr, lower.indices
    model.hessian_.value_ = lower.data
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", 5.0)
    solver.passModel(model)
    solver.run()
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return check(optimal, np.array(solver.getSolution().col_value))


class FailedError(RuntimeError):
    """The solver gave no answer."""


def check(solved: bool, x: Any) -> Array:
    if not solved or not np.all(np.isfinite(x)):
        raise FailedError
    return np.asarray(x, dtype=np.float64)


def to_simplex(x: Array) -> Array:
    x = np.maximum(x, 0.0)
    return x / max(1.0, float(x.sum()))


def solve_scaled(solver: Solver, G: Array, b: Array) -> Array:
    """Unit diagonal and a linear term of size 1: what every solver's absolute tolerances are made for."""
    size = 1.0 / np.sqrt(np.maximum(G.diagonal(), 1e-300))
    linear = b * size
    step = float(np.abs(linear).max())
    beta = solver(G * size * size[:, None], linear / step, size * step)
    return to_simplex(beta * size * step)


def relative_gap(G: Array, b: Array, alpha: Array) -> float:
    r = b - G @ alpha
    dual = float(b @ alpha - 0.5 * alpha @ G @ alpha)
    return (max(0.0, float(r.max())) - float(alpha @ r)) / max(abs(dual), 1e-300)


def growing_problems(l2: float, planes: int) -> list[tuple[Array, Array]]:
    """Gram matrix and offsets after each iteration of a 1-slack run."""
    X, y = load_digits(return_X_y=True)
    X, rows, w = X / 16.0, np.arange(len(y)), np.zeros(640)
    gradients: list[Array] = []
    offsets: list[float] = []
    problems = []
    for _ in range(planes):
        scores = X @ w.reshape(10, -1).T + 1.0
        scores[rows, y] -= 1.0
        guess = scores.argmax(axis=1)
        signs = np.zeros_like(scores)
        signs[rows, guess] += 1.0
        signs[rows, y] -= 1.0
        gradient = (signs.T @ X).ravel()
        gradients.append(gradient)
        offsets.append(float((guess != y).sum()))
        A = np.array(gradients)
        G, b = A @ A.T / l2, np.array(offsets)
        problems.append((G, b))
        w = -(solve_scaled(with_piqp, *problems[-1]) @ A) / l2
    return problems


SOLVERS: dict[str, tuple[str, Solver]] = {
    "daqp": ("daqp", with_daqp),
    "daqp, proximal": ("daqp", with_daqp_proximal),
    "piqp": ("piqp", with_piqp),
    "clarabel": ("clarabel", with_clarabel),
    "osqp": ("osqp", with_osqp),
    "quadprog": ("quadprog", with_quadprog),
    "highs": ("highspy", with_highs),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--planes", type=int, default=150)
    given = options.parse_args()
    planes = min(given.planes, 40) if given.quick else given.planes
    console = Console(width=110)
    installed = {
        name: solver for name, (package, solver) in SOLVERS.items() if find_spec(package) is not None
    }
    for name in SOLVERS.keys() - installed.keys():
        print(f"{name}: not measured, {SOLVERS[name][0]} is not installed")
    for l2 in (100.0, 1.0, 0.01):
        problems = growing_problems(l2, planes)
        table = Table(title=f"1 to {planes} planes, l2 = {l2:g}")
        for column in ("solver", "CPU ms, all", "CPU ms, last 10", "failed", "median gap", "largest gap"):
            table.add_column(column, justify="left" if column == "solver" else "right")
        for name, solver in installed.items():
            times, gaps, failed = [], [], 0
            for G, b in problems:
                began = time.process_time()
                try:
                    alpha = solve_scaled(solver, G, b)
                    gaps.append(relative_gap(G, b, alpha))
                except FailedError:
                    failed += 1
                times.append(time.process_time() - began)
            table.add_row(
                name,
                f"{1e3 * sum(times):.0f}",
                f"{1e2 * sum(times[-10:]):.2f} each",
                str(failed),
                f"{np.median(gaps):.1e}" if gaps else "-",
                f"{max(gaps):.1e}" if gaps else "-",
            )
        console.print(table)


if __name__ == "__main__":
    main()
