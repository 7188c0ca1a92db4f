"""The public names of Trellis by section: the pages of the reference are written from this list, and the
tests require a docstring and an example of every name in it."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

# module, title of its section, and its names where the module has no __all__
SECTIONS: list[tuple[str, str, str]] = [
    ("trellis", "Main classes", ""),
    ("trellis.data", "Sequences, labels and files", ""),
    ("trellis.features", "Features", ""),
    ("trellis.losses", "Task losses", ""),
    (
        "trellis.losses.metrics",
        "Metrics",
        "SpanReport SpanScore errors_by_sequence score_table sequence_accuracy span_f1 span_report "
        "token_accuracy",
    ),
    ("trellis.objectives", "Objectives", ""),
    ("trellis.solvers", "Solvers", ""),
    ("trellis.training", "Training", ""),
    ("trellis.structures.chain", "Chains", ""),
    ("trellis.structures.graph", "Graphs", ""),
    ("trellis.structures.segments", "Segments", ""),
    ("trellis.hmm", "Hidden Markov models", ""),
    ("trellis.hmm.emissions", "Emissions", ""),
    ("trellis.hmm.input_output", "Hidden Markov models with inputs", ""),
    ("trellis.hmm.spectral", "Spectral learning", ""),
    ("trellis.statespace", "Linear-Gaussian models", ""),
    ("trellis.bayesnet", "Bayesian networks", ""),
    ("trellis.neural", "Neural networks", ""),
    ("trellis.theory", "Learning theory", ""),
    ("trellis.speech", "Speech", ""),
    ("trellis.speech.formats", "Alignment files", "get_format read_alignment write_alignment"),
    (
        "trellis.speech.evaluate.boundary_evaluation",
        "Evaluating alignments",
        "AlignmentEvaluation compare evaluate_alignments",
    ),
    (
        "trellis.report.theory_figures",
        "Figures: learning theory",
        "draw_gap draw_learning_curve draw_witness",
    ),
    ("trellis.core.model_pages", "Model reports", "Page"),
    ("trellis.report.alignment_page", "Alignment reports", "write_alignment_page"),
    ("trellis.core.backends", "Backends", ""),
    (
        "trellis.core.errors",
        "Errors and warnings",
        "ApproximationWarning DataError InfeasibleError MissingExtraError ModelFileError NumericalError "
        "StepError TrellisError UnsupportedError",
    ),
]


def names_of(module: str, listed: str) -> list[str]:
    """The public names of a section, in alphabetical order."""
    return listed.split() or sorted(importlib.import_module(module).__all__)


def public_names() -> list[tuple[str, str, Any]]:
    """Module, name and value of every public name; one that several modules export is listed with each."""
    return [
        (module, name, getattr(importlib.import_module(module), name))
        for module, _, listed in SECTIONS
        for name in names_of(module, listed)
    ]


def documented_in(value: Any) -> str:
    """Whether a value can have a docstring: "module", "class" or "function"; "" for data."""
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, type) and hasattr(value, "__qualname__") and not hasattr(value, "__origin__"):
        return "class"
    return "function" if callable(value) and hasattr(value, "__code__") else ""


def write_pages(folder: Path) -> None:
    """Write a page for each section, with a table of its names; pages that are up to date are not touched."""
    folder.mkdir(exist_ok=True)
    kept = set()
    seen: dict[int, str] = {}  # a name that two sections have gets its page in the first
    for module, title, listed in SECTIONS:
        about = (importlib.import_module(module).__doc__ or "").strip().partition("\n\n")[0]
        lines = [
            title,
            "=" * len(title),
            "",
            f".. currentmodule:: {module}",
            "",
            f"Import from ``{module}``.",
            "",
            "\n".join(about.split("\n")),
            "",
        ]
        own, elsewhere = [], []
        for name in names_of(module, listed):
            value = getattr(importlib.import_module(module), name)
            if isinstance(value, ModuleType):
                continue  # a section of its own, or named in the text
            if not documented_in(value):
                kind = f"names: {', '.join(value)}" if isinstance(value, dict) else repr(value)
                lines += [f".. py:data:: {name}", "", f"   {kind}", ""]
            elif id(value) in seen:
                elsewhere.append(f":py:obj:`{name} <{seen[id(value)]}.{name}>`")
            else:
                own.append(name)
                seen[id(value)] = module
        if elsewhere:
            lines += [f"Also importable from here: {', '.join(elsewhere)}.", ""]
        if own:
            lines += [".. autosummary::", "   :toctree: generated", "", *(f"   {name}" for name in own), ""]
        path = folder / f"{module}.rst"
        kept.add(path)
        text = "\n".join(lines)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    kept |= {
        folder / "generated" / f"{seen[id(value)]}.{name}.rst"
        for _, name, value in public_names()
        if id(value) in seen
    }
    for path in {*folder.glob("trellis*.rst"), *folder.glob("generated/trellis*.rst")} - kept:
        path.unlink()  # of a name that is public no more
