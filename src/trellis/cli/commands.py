"""How commands join a group: with examples in their help, and with a word on other libraries' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from trellis.core.foreign_names import translate

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # click's own, wherever typer has it from


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
