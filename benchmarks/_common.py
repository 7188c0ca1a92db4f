"""What the benchmarks share: where the data are, clocks, the table of figures, cold compilation.

Two programs are compared by the minima of repeats that take turns (ours, peer, ours, peer, ...): a busy
machine then slows both alike, and the minimum forgets it. Our kernels are compiled before a clock starts;
what compiling costs is a figure of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import ThreadpoolController

from trellis.data.labels import EncodedLabels, LabelSet
from trellis.features.encoded import Encoded
from trellis.losses.labelings import Hamming
from trellis.objectives.records import Objective
from trellis.structures.chain.labeler.chain_training import Examples, linear_problem
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties

CHECKOUT = Path(__file__).resolve().parent.parent
DATA = CHECKOUT.parent / "shared" / "data"
SPEECH = CHECKOUT / "tests" / "support" / "synthetic_speech"  # for synthetic_corpus
FIGURES = "TRELLIS_BENCH_FIGURES"  # a variable: the file to which _all.py has figures added

Work = Callable[[], object]


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    options.add_argument("--quick", action="store_true", help="leave out what takes long")
    return options


def files(folder: Path, *names: str) -> list[Path]:
    """The files of a data set; where they are missing the benchmark says so and ends well."""
    paths = [folder / name for name in names]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"not measured: {missing[0]} is not there; name the folder of the data sets by --data")
        sys.exit(0)
    return paths


def require_peers(*packages: str) -> None:
    """The libraries to compare with; where one is missing the benchmark says so and ends well."""
    for name in packages:
        if importlib.util.find_spec(name) is None:
            print(f"not measured: {name} is not installed; install the extra bench")
            sys.exit(0)


def fastest(*work: Work, repeats: int, clock: Callable[[], float] = time.process_time) -> list[float]:
    """The least time of each piece of work, over repeats that take turns."""
    best = [np.inf] * len(work)
    for _ in range(repeats):
        for i, run in enumerate(work):
            began = clock()
            run()
            best[i] = min(best[i], clock() - began)
    return best


def cold_seconds(code: str) -> tuple[float, float]:
    """Wall seconds of some Python in a new process: with an empty compile cache, then with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1]


def chain_problem(
    inputs: Encoded,
    labels: EncodedLabels,
    names: LabelSet,
    objective: Objective,
    *,
    l2: float,
    n_jobs: int = 1,
    observed: bool = False,
) -> LinearChainProblem:
    """The training problem of ``SequenceLabeler(boundaries=False)`` with the Hamming loss."""
    if observed:
        layout = LinearLayout.observed(inputs, labels.codes, labels.allowed, len(names), boundaries=False)
    else:
        layout = LinearLayout.all_pairs(inputs, len(names), boundaries=False)
    problem: LinearChainProblem = linear_problem(
        Examples(inputs, labels),
        layout,
        Penalties.none(len(names)),
        names,
        objective,
        Hamming(),
        np.ones(len(labels.offsets) - 1),
        Hamming().costs(labels, names) if objective.uses_loss else None,
        l2=l2,
        n_jobs=n_jobs,
    )
    return problem


class Figures:
    """A table of measured figures against a peer and a target."""

    def __init__(
        self, title: str, columns: Sequence[str] = ("ours", "peer", "ratio", "target", "met")
    ) -> None:
        self._table = Table(title=title, title_justify="left")
        self._title, self._columns, self._rows = title, list(columns), list[list[str]]()
        self._table.add_column("figure", overflow="fold")
        for column in columns:
            self._table.add_column(column, justify="right")

    def times(
        self, name: str, ours: float, peer: float, at_least: float | None = None, unit: str = "s"
    ) -> None:
        """Times (or megabytes): the ratio is how many times less ours is."""
        self.ratio(name, _quantity(ours, unit), _quantity(peer, unit), peer / ours, at_least)

    def rates(self, name: str, ours: float, peer: float, at_least: float | None = None) -> None:
        """Things per second: the ratio is how many times more ours is."""
        self.ratio(name, f"{ours / 1e3:,.0f} k/s", f"{peer / 1e3:,.0f} k/s", ours / peer, at_least)

    def ratio(self, name: str, ours: str, peer: str, ratio: float, at_least: float | None) -> None:
        target = "" if at_least is None else f"\u2265 {at_least:g}x"
        self.row(
            name, ours, peer, f"{ratio:.2f}x", target, met=None if at_least is None else ratio >= at_least
        )

    def value(self, name: str, ours: str, peer: str = "", target: str = "", met: bool | None = None) -> None:
        self.row(name, ours, peer, "", target, met=met)

    def row(self, *cells: str, met: bool | None) -> None:
        """Any cells; ``met`` goes into the last column."""
        self._table.add_row(*cells, "" if met is None else "[green]yes[/]" if met else "[red]no[/]")
        self._rows.append([*cells, "" if met is None else "yes" if met else "no"])

    def print(self) -> None:
        """And add the figures to the table of the whole run, if there is one (``_all.py``)."""
        Console(width=120).print(self._table)
        if place := os.environ.get(FIGURES):
            with open(place, "a", encoding="utf-8") as file:
                for name, *cells in self._rows:
                    kept = {"title": self._title, "name": name, "columns": self._columns, "cells": cells}
                    file.write(json.dumps(kept) + "\n")


def _quantity(amount: float, unit: str) -> str:
    if unit == "s" and amount < 1.0:
        return f"{1e3 * amount:.3g} ms"
    return f"{amount:.3g} {unit}" if amount < 100 else f"{amount:,.0f} {unit}"


def check(right: bool, what: str) -> None:
    """A benchmark whose two sides disagree measures nothing."""
    if not right:
        print(f"the two sides do not agree: {what}", file=sys.stderr)
        sys.exit(1)


def run_until(run: Any, key: str, goal: float, max_steps: int) -> list[dict[str, float]]:
    """Step a solver's run until ``key`` is at most ``goal``; what it measured, with CPU and wall seconds.

    One BLAS thread, as in :func:`trellis.solvers.minimise`.
    """
    history: list[dict[str, float]] = []
    cpu, wall = time.process_time(), time.perf_counter()
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        for _ in range(max_steps):
            measured = dict(run.step())
            measured["cpu"], measured["wall"] = time.process_time() - cpu, time.perf_counter() - wall
            history.append(measured)
            if measured[key] <= goal or run.status() is not None:
                break
    return history
