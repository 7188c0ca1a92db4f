"""The limits of the machine beside what the five main kernels reach: a roofline.

First the machine is measured: the bandwidth of each cache and of the memory (a triad), and the multiply-
adds that registers allow, on one thread and on two. For each kernel, ``_kernel_costs.py`` counts the
operations and bytes that a step must take; the limit is the larger of operations / peak and bytes /
bandwidth at the level that holds the kernel's data. Beside it stands the time that a step takes (one
thread, CPU time, the least of several), and why the two differ.

    python benchmarks/limits.py [--quick] [--page docs/limits.md] [--picture docs/images/roofline.png]

``--page`` writes the tables into the page, between its marks. The CRF and the perceptron are measured on
CoNLL-2000 where it is there.
"""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import hmm
import kalman
from _common import Figures, chain_problem, fastest, parser
from _kernel_costs import (
    CompactSizes,
    Cost,
    crf_evaluation,
    crf_stages,
    hmm_e_step,
    kalman_smoother,
    perceptron_pass,
    viterbi,
)
from _machine import Machine, measure
from trellis.core.simd_kernels import padded
from trellis.data.columns import read_columns
from trellis.data.labels import LabelSet
from trellis.features.template_encoder import TemplateEncoder
from trellis.features.templates import Template
from trellis.objectives import Log, Perceptron
from trellis.solvers import Perceptron as PerceptronSolver
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.compact import STEPS

PROSE = 120  # characters in a line of the page
BEGIN, END = "<!-- figures of limits.py begin -->", "<!-- figures of limits.py end -->"


class Measured(NamedTuple):
    """A kernel, what a step of it costs by arithmetic, the seconds that it takes, and why these differ."""

    name: str
    cost: Cost
    seconds: float
    why: str
    compact: CompactSizes | None = None

    def limit(self, machine: Machine) -> tuple[float, str]:
        """The least seconds for a step, and what sets them."""
        level = machine.level_of(self.cost.working_set)
        by_flops, by_bytes = self.cost.flops / machine.flops[1], self.cost.bytes / level.bandwidth[1]
        return (by_flops, "operations") if by_flops >= by_bytes else (by_bytes, f"bytes from {level.name}")


def per_step(work: Callable[[], object], steps: int, repeats: int) -> float:
    work()
    return fastest(work, repeats=repeats)[0] / steps


def linear_chains(data: Path, repeats: int) -> Iterator[Measured]:
    """The CRF and the perceptron on CoNLL-2000 chunks."""
    file = data / "conll2000" / "train.txt"
    if not file.exists():
        print(f"not measured: {file} is not there; name the folder of the data sets by --data")
        return
    columns = read_columns(file)
    inputs, y = TemplateEncoder(Template.crfsuite_chunking()).fit(columns.without(-1)), columns.sequences(-1)
    names = LabelSet.of(y)
    labels = names.encode(y)
    problem = chain_problem(inputs, labels, names, Log(), l2=2.0, observed=True)
    steps, k = len(labels.codes), len(names)
    weights = np.random.default_rng(0).normal(scale=0.1, size=problem.dimension) * problem.layout.mask
    sizes = compact_sizes(problem, steps)
    yield Measured(
        f"CRF: objective and gradient, K = {k}",
        crf_evaluation(sizes),
        per_step(lambda: problem.value_and_gradient(weights), steps, repeats),
        "rows that many tokens share stay in the second cache, so the kernel can be faster than the bytes of "
        "the last cache would allow if nothing were repeated; it waits for arithmetic: rows are padded to "
        "whole registers, and rare ones are single cache lines from random places.",
        sizes,
    )
    online = chain_problem(inputs, labels, names, Perceptron(), l2=0.0, observed=True)
    run = PerceptronSolver().start(online, np.zeros(online.dimension), np.random.default_rng(0))
    lengths, indices = np.diff(online.layout.rows.pointer), inputs.nodes.indices
    lengths[: online.layout.n_hot] = k
    yield Measured(
        f"perceptron: a pass, K = {k}",
        perceptron_pass(len(indices) / steps, float(lengths[indices].sum()) / steps, k, online.dimension),
        per_step(run.step, steps, repeats),
        "sentences come in random order and their ragged rows from random places; a row of three weights "
        "costs a whole cache line, and its loop costs more than its additions.",
    )


def compact_sizes(problem: LinearChainProblem, tokens: int) -> CompactSizes:
    """How many full rows and how many single weights one evaluation reads, by the arrangement at work."""
    data, k = problem._compact, problem.layout.n_labels
    return CompactSizes(
        tokens,
        len(data.rows),
        len(data.single_places),
        len(data.bounds) - 1,
        problem.dimension,
        k,
        padded(k),
        STEPS,
    )


def decoding(quick: bool, repeats: int) -> Measured:
    k, length, sequences = 22, 25, 200 if quick else 8000
    rng = np.random.default_rng(0)
    scores = ChainScores.of(
        rng.normal(size=(length * sequences, k)), rng.normal(size=(k, k)), lengths=[length] * sequences
    )
    return Measured(
        f"Viterbi from scores, K = {k}",
        viterbi(k, length * sequences),
        per_step(lambda: Chain().best(scores), length * sequences, repeats),
        "a maximum has no multiply-add, so additions and comparisons run at no more than half the peak; each "
        "step waits for the one before, and the best predecessor is found again on the way back.",
    )


def e_step(quick: bool, repeats: int) -> Measured:
    case = hmm.CASES[0]._replace(sequences=4 if quick else 200)
    problem = hmm.problem_of(case)
    steps = case.sequences * case.length
    return Measured(
        f"HMM: E-step, K = {case.n_states}",
        hmm_e_step(case.n_states, case.length),
        per_step(lambda: problem.problem.h(problem.ours), steps, repeats),
        f"each product of {case.n_states} numbers with a matrix waits for the one before: two registers are "
        "at work where the peak needs eight or more.",
    )


def smoother(n: int, m: int, quick: bool, repeats: int) -> Measured:
    steps = 300 if quick else 10_000
    rng = np.random.default_rng(0)
    model = kalman.example(n, m, rng)
    x, _ = model.sample(steps, random_state=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    return Measured(
        f"Kalman smoother, 10 % missing, {n} states, {m} observations",
        kalman_smoother(n, m, steps),
        per_step(lambda: model.smooth(x), steps, repeats),
        "tiles reach the peak only when they are deep; the Cholesky factor of each step is a chain of square "
        "roots and divisions, and matrices are copied between the tiles and the results.",
    )


def machine_lines(machine: Machine) -> list[str]:
    threads = list(machine.flops)
    lines = [
        "| limit | arrays | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in threads) + " |",
        "| --- | ---: |" + " ---: |" * len(threads),
    ]
    for level in machine.levels:
        size = f"{level.measured_with / 2**20:,.2f} MB"
        rates = " | ".join(f"{level.bandwidth[n] / 1e9:,.1f} GB/s" for n in threads)
        lines.append(f"| triad in {level.name} | {size} | {rates} |")
    rates = " | ".join(f"{machine.flops[n] / 1e9:,.1f} Gflop/s" for n in threads)
    return [*lines, f"| multiply-adds in registers | | {rates} |"]


def kernel_lines(machine: Machine, kernels: list[Measured]) -> list[str]:
    lines = [
        "| kernel | flops a step | bytes a step | at the limit | takes | times the limit | set by |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for kernel in kernels:
        limit, by = kernel.limit(machine)
        lines.append(
            f"| {kernel.name} | {kernel.cost.flops:,.0f} | {kernel.cost.bytes:,.0f} | "
            f"{1e9 * limit:,.0f} ns | {1e9 * kernel.seconds:,.0f} ns | {kernel.seconds / limit:.1f} | {by} |"
        )
    for kernel in kernels:
        if kernel.compact is not None:
            lines += ["", f"{kernel.name}, stage by stage, a token:", "", *stage_lines(kernel.compact)]
    reasons = [
        textwrap.fill(f"* {kernel.name}: {kernel.why}", PROSE, subsequent_indent="  ") for kernel in kernels
    ]
    return [*lines, "", "Why:", "", *reasons]


def stage_lines(sizes: CompactSizes) -> list[str]:
    lines = [
        "| stage | flops | bytes moved | bytes that must come from memory |",
        "| --- | ---: | ---: | ---: |",
    ]
    stages = crf_stages(sizes)
    everything = ("all", *(sum(column) for column in list(zip(*stages, strict=True))[1:]))
    for name, flops, moved, needed in [*stages, everything]:
        lines.append(f"| {name} | {flops:,.0f} | {moved:,.0f} | {needed:,.0f} |")
    return lines


def write_page(page: Path, lines: list[str]) -> None:
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]), encoding="utf-8")
    print(f"written into {page}")


def picture(path: Path, machine: Machine, kernels: list[Measured]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    peak, intensity = machine.flops[1] / 1e9, np.geomspace(0.05, 100, 200)
    shades = np.linspace(0.7, 0.0, len(machine.levels))
    for number, (level, shade) in enumerate(zip(machine.levels, shades, strict=True)):
        roof = np.minimum(peak, intensity * level.bandwidth[1] / 1e9)
        axes.loglog(intensity, roof, color=str(shade), linewidth=1)
        x = 0.055 * 1.7**number  # side by side: the roofs of the last cache and of the memory nearly meet
        axes.text(
            x, 1.15 * x * level.bandwidth[1] / 1e9, level.name, fontsize=8, color=str(shade), rotation=36
        )
    axes.text(40, 1.1 * peak, "multiply-adds", fontsize=8)
    for number, kernel in enumerate(kernels):
        color = f"C{number}"
        x, reached = kernel.cost.flops / kernel.cost.bytes, kernel.cost.flops / kernel.seconds / 1e9
        at_limit = kernel.cost.flops / kernel.limit(machine)[0] / 1e9
        axes.plot([x, x], [reached, at_limit], ":", color=color, linewidth=1)
        axes.plot(x, at_limit, "_", color=color, markersize=12)
        axes.plot(x, reached, "o", color=color, label=kernel.name)
    axes.set(xlabel="operations for each byte", ylabel="Gflop/s, one thread", ylim=(0.5, 2.5 * peak))
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)
    print(f"picture written to {path}")


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--page", type=Path, help="a page with the marks of this script, to write the tables into"
    )
    options.add_argument("--picture", type=Path, help="where to save the roofline")
    given = options.parse_args()
    repeats = 3 if given.quick else 9
    machine = measure(quick=given.quick)
    with threadpool_limits(1, "blas"):
        kernels = [
            *linear_chains(given.data, repeats),
            decoding(given.quick, repeats),
            e_step(given.quick, repeats),
            smoother(8, 4, given.quick, repeats),
            smoother(16, 8, given.quick, repeats),
        ]
    print_tables(machine, kernels)
    if given.page:
        machine_name = (
            f"Measured on {platform.machine()}, {platform.system()}, Python {platform.python_version()}."
        )
        lines = [machine_name, "", *machine_lines(machine), "", *kernel_lines(machine, kernels)]
        write_page(given.page, lines)
    if given.picture:
        picture(given.picture, machine, kernels)


def print_tables(machine: Machine, kernels: list[Measured]) -> None:
    threads = list(machine.flops)
    limits = Figures(
        "Limits of the machine", ("arrays", *(f"{n} thread{'s' * (n > 1)}" for n in threads), "")
    )
    for level in machine.levels:
        rates = [f"{level.bandwidth[n] / 1e9:,.1f} GB/s" for n in threads]
        limits.row(f"triad in {level.name}", f"{level.measured_with / 2**20:,.2f} MB", *rates, met=None)
    rates = [f"{machine.flops[n] / 1e9:,.1f} Gflop/s" for n in threads]
    limits.row("multiply-adds in registers", "", *rates, met=None)
    limits.print()
    figures = Figures(
        "A step at the limit, and as it is (one thread, CPU)",
        ("flops", "bytes", "at the limit", "takes", "times", "set by", ""),
    )
    for kernel in kernels:
        limit, by = kernel.limit(machine)
        figures.row(
            kernel.name,
            f"{kernel.cost.flops:,.0f}",
            f"{kernel.cost.bytes:,.0f}",
            f"{1e9 * limit:,.0f} ns",
            f"{1e9 * kernel.seconds:,.0f} ns",
            f"{kernel.seconds / limit:.1f}",
            by,
            met=None,
        )
    figures.print()
    for kernel in kernels:
        if kernel.compact is not None:
            print("\n".join(stage_lines(kernel.compact)))
        print(f"{kernel.name}: {kernel.why}")


if __name__ == "__main__":
    main()
