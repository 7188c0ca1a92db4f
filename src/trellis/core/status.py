"""Why an iteration stopped."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.core.registration import register

INTERRUPTED = "interrupted from the keyboard"


@register
@dataclass(frozen=True)
class Status:
    """Why it stopped; running out of iterations is never "converged". ``str(status)`` is one sentence."""

    converged: bool
    reason: str
    n_iter: int = 0

    def __str__(self) -> str:
        verb = "converged" if self.converged else "stopped"
        return f"{verb} after {self.n_iter} iteration{'s' * (self.n_iter != 1)}: {self.reason}"
