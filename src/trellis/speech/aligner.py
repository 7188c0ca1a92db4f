"""A forced aligner that learns from hand-corrected boundaries (interface; see docs/aligner.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from trellis.alignment_losses import AlignmentLoss
from trellis.objectives.modes import Objective
from trellis.speech.alignment import Alignment
from trellis.speech.audio import Recording
from trellis.storage import PathLike

Silence = Literal["auto", "none"]


class Aligner:
    """``fit`` on utterances with reference alignments, then ``align`` recordings to phones or words."""

    def __init__(
        self,
        objective: str | Objective = "direct",
        loss: str | AlignmentLoss = "tau_alignment",
        tau_ms: float = 10.0,
        *,
        classifier: str = "mlp",
        features: str | Sequence[str] = "all",
        step_ms: float = 10.0,
        fold: str | Mapping[str, str] | None = None,
        solver: str = "auto",
        epsilon: float | str = "holdout",
        passes: int = 10,
        l2: float = 1e-3,
        average: bool = True,
        split: Sequence[float] | Mapping[str, Sequence[str]] = (0.45, 0.45, 0.1),
        refine: bool = True,
        n_jobs: int = 1,
        random_state: int = 0,
    ) -> None: ...

    def fit(self, corpus: Iterable[Any], progress: Callable[[str, float], None] | None = None) -> Aligner:
        """Learn from the utterances of a corpus that have a reference."""
        raise NotImplementedError

    def align(
        self,
        audio: PathLike | Recording,
        phones: Sequence[str] | None = None,
        *,
        words: Sequence[str] | str | None = None,
        dictionary: Any = None,
        silence: Silence = "auto",
        channel: int | None = None,
        confidence: bool = True,
    ) -> Alignment:
        """Start and end of each phone (and word)."""
        raise NotImplementedError

    def evaluate(self, corpus: Iterable[Any]) -> Any:
        """Align every utterance to its reference phones and compare (trellis.speech.evaluation)."""
        raise NotImplementedError

    def save(self, path: PathLike, extra: dict[str, Any] | None = None) -> None:
        """Write the model; :func:`trellis.load` reads it back."""
        raise NotImplementedError
