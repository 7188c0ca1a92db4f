"""What was asked of a cluster, and how many bytes that took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Traffic:
    """Bytes are those of this process: what it sends is passed on from worker to worker, what it receives
    are sums that were added on the workers. ``seconds``: spent in questions; ``repeats``: questions that were
    asked again because workers or the scheduler were lost; ``remade``: states that were made again."""

    questions: int = 0
    bytes_out: int = 0
    bytes_back: int = 0
    seconds: float = 0.0
    repeats: int = 0
    remade: int = 0

    def __str__(self) -> str:
        lost = f", {self.repeats} asked again, {self.remade} shards made again" if self.repeats else ""
        return (
            f"{self.questions} questions in {self.seconds:.1f} s, {self.bytes_out / 1e6:.1f} MB out, "
            f"{self.bytes_back / 1e6:.1f} MB back{lost}"
        )
