"""What ``SequenceLabeler.fit`` asks of the data that it learns from, in memory or in files."""

from __future__ import annotations

from typing import Any, Protocol

from trellis.data.labels import LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.features.encoded import FeatureEncoder
from trellis.structures.chain.labeler.chain_training import Examples
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.transition_pairs import TransitionPairs
from trellis.training.direct_recipe import Fold


class TrainingData(Protocol):
    """Encoded sequences. A *part* of them is what its own kind of data takes as such; ``whole`` is all."""

    encoder: FeatureEncoder
    names: LabelSet
    latent: LatentLabels
    pairs: TransitionPairs | None
    penalties: Penalties
    one_symbol: bool
    identity: dict[str, Any]  # by which checkpoints know the data
    whole: Any

    def split(self, seed: int) -> list[Any]:
        """Parts ``kept`` and ``held`` (None where nothing is held out), once, or several times in turn."""

    def sample(self, part: Any) -> Examples:
        """Some sequences, with several labels where there are."""

    def arrange(self, part: Any) -> LinearLayout:
        """The layout of the weights of what is in this part; problems have it from here on."""

    def problem(self, part: Any) -> Any:
        """What solvers minimise."""

    def held_out(self, split: Any) -> Any:
        """The loss of what is held out, as a function of the weights."""

    def fold(self, split: Any, measured: Any, kept: Any) -> Fold:
        """For fine-tuning; ``kept``: the problem of what to learn from, where there is one already."""

    def release(self) -> None:
        """Problems are made."""
