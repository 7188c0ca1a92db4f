"""CRFsuite's trainer, with the loss of each of its iterations."""

from __future__ import annotations

import pycrfsuite


class RecordedTrainer(pycrfsuite.Trainer):
    def __init__(self) -> None:
        super().__init__(verbose=True)
        self.losses: list[float] = []

    def message(self, message: str) -> None:
        if message.startswith("Loss:"):
            self.losses.append(float(message.split()[1]))
