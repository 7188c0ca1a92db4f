"""Commands with examples in their help; arguments and options in one line each, or from declared parameters.

An option that another library has is answered with the name that it has here.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from trellis.core.errors import DataError
from trellis.core.foreign_names import translate
from trellis.core.parameters import Choice, Flag, Parameter, Range

Command = TypeVar("Command", bound=Callable[..., None])
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # click's own, wherever typer has it from


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def option(spec: str, help: str, **settings: Any) -> Any:
    """``option("-o --output FILE", ...)``: the names and, last, what stands for the value, if anything."""
    words = spec.split()
    if not words[-1].startswith("-"):
        settings["metavar"] = words.pop()
    return typer.Option(*words, help=help, **settings)


def read_pairs(option: str, given: Iterable[str] | None, example: str) -> dict[str, str]:
    """``["A=yes", "B=no"]`` as a dictionary; a name may itself contain = if its value does not."""
    found: dict[str, str] = {}
    for text in given or ():
        name, _, value = text.rpartition("=")
        if not name or not value:
            raise DataError(f"{option} {text}: give a name, = and a value, as in {option} {example}")
        if name in found:
            raise DataError(f"{option} {text}: {name!r} is given twice")
        found[name] = value
    return found


Encoding = Annotated[str | None, option("--encoding NAME", "Character encoding of text files, if not UTF-8.")]
AsJson = Annotated[bool, option("--json", "Print the results as JSON.")]
Jobs = Annotated[int | None, option("-j --jobs N", "Number of threads (default: all cores).", min=1)]


def _without_python(doc: str) -> str:
    """What a parameter does, in words that hold for a shell, where None cannot be given."""
    doc = re.sub(r"(?<=; )None (is|keeps)", r"the default \1", doc.replace("``", ""))
    return re.sub(r"\bNone (is|keeps)", r"The default \1", doc)


def declared_option(declared: Parameter, spec: str, doc: str | None = None) -> Any:
    """The option of a declared parameter, with its bounds; ``doc`` replaces its help."""
    bounds: dict[str, Any] = {}
    if isinstance(declared.constraint, Range):
        bounds = {"min": declared.constraint.minimum, "max": declared.constraint.maximum}
        bounds = {name: bound for name, bound in bounds.items() if math.isfinite(bound)}
    return option(spec, _without_python(declared.doc) if doc is None else doc, **bounds)


def offer_parameters(**parameters: tuple[Parameter, str]) -> Callable[[Command], Command]:
    """Give a command an option for each declared parameter, which reach it as keyword arguments.

    ``tau_ms=(TAU_MS, "--tau MS")``: type, range, default and help are those of the declaration, the rest is
    as in :func:`option`. A parameter without a range is a number, a list of words separated by commas, or a
    word.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        offered = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=p.default, annotation=_annotation(p, spec)
            )
            for name, (p, spec) in parameters.items()
        ]
        vars(command)["__signature__"] = signature.replace(parameters=[*own, *offered])
        return command

    return decorate


def _annotation(parameter: Parameter, spec: str) -> Any:
    """The type of a declared parameter on the command line, with its option."""
    constraint = parameter.constraint
    if isinstance(constraint, Flag):
        return Annotated[bool, declared_option(parameter, f"{spec}/--no-{spec[2:]}")]
    if isinstance(constraint, Choice):
        return Annotated[StrEnum("Choice", list(constraint.names)), declared_option(parameter, spec)]
    if isinstance(constraint, Range):
        kind: Any = int if constraint.whole else float
        return Annotated[kind | None if constraint.none else kind, declared_option(parameter, spec)]
    return Annotated[Any, option(spec, _without_python(parameter.doc), parser=_parse)]


def _parse(text: str) -> Any:
    if "," in text:
        return [word.strip() for word in text.split(",")]
    try:
        return float(text)
    except ValueError:
        return text


class HelpfulCommand(TyperCommand):
    """A command that says what an option of another library is called here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if hasattr(error, "possibilities"):  # no such option
                _suggest(error, self.get_params(ctx))
            raise


def _suggest(error: Any, params: list[Any]) -> None:
    options = {_parameter(name): name for param in params for name in param.opts if name.startswith("--")}
    meant = translate(_parameter(error.option_name), options)
    if meant is not None:
        note = f" ({meant.conversion})" if meant.conversion else ""
        error.message = f"No such option: {error.option_name}; did you mean {options[meant.ours]}{note}?"
        error.possibilities = None


def _parameter(option: str) -> str:
    """``--max-iter`` is the parameter ``max_iter``."""
    return option.lstrip("-").replace("-", "_").replace(".", "_").removeprefix("feature_")


def add_command(group: typer.Typer, command: Callable[..., None], *examples: str) -> None:
    """Give a group a command; ``examples`` are what to type after ``trellis``, and end its help."""
    lines = "\n".join(f"  trellis {example}" for example in examples)
    group.command(cls=HelpfulCommand, epilog=f"\b\nExamples:\n{lines}")(command)
