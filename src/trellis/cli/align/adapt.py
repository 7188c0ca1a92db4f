"""``trellis align adapt``: let an aligner learn from recordings whose boundaries were corrected."""

from __future__ import annotations

import time
from typing import Annotated, Any

from trellis.cli.align.corpus_options import CorpusOptions, offer_corpus_options
from trellis.cli.align.train import Output, Quiet
from trellis.cli.console import binary_target, check_output, note
from trellis.cli.options import argument, offer_parameters
from trellis.cli.train_options import Checkpoint
from trellis.cli.training_output import stopped_at_checkpoint
from trellis.core.output_files import check_folder
from trellis.core.progress import terminal_bar
from trellis.speech.align import aligner_parameters as declared

Model = Annotated[str, argument("MODEL", "Model that trellis align train or adapt wrote, or builtin.")]
Corrected = Annotated[str, argument("CORRECTED", "Folder of recordings and their corrected labels.")]


@offer_corpus_options
@offer_parameters(random_state=(declared.RANDOM_STATE, "--seed N"))
def adapt(
    model: Model,
    corrected: Corrected,
    output: Output,
    reading: CorpusOptions,
    checkpoint: Checkpoint = None,
    quiet: Quiet = False,
    **parameters: Any,
) -> None:
    """Learn from recordings with corrected boundaries.

    One recording is enough to begin with. Recordings that are left out in turn decide how far the model
    moves. If they would be aligned worse, the model stays as it is, and the command says so.
    """
    from trellis.cli.align import models

    began = time.perf_counter()
    check_output(output, "a model", inputs=[corrected])
    if checkpoint is not None:
        check_folder(checkpoint)
    aligner, _ = models.open_aligner(model, None)
    found = reading.read(corrected)
    for name, reason in found.skipped:
        note(f"skipped {name}: {reason}")
    aligner.set_params(**parameters)
    with terminal_bar("adapting", 100, False if quiet else None) as update:
        tell = None if update is None else lambda stage, share: update(100 * share, stage)
        try:
            adapted = aligner.adapt(found, tell, checkpoint=checkpoint)
        except KeyboardInterrupt:
            if checkpoint is None:
                raise
            stopped_at_checkpoint(checkpoint)
    adapted.save(binary_target(output))
    if not quiet:
        took = time.perf_counter() - began
        note(f"{adapted.status_.reason}\n{len(found)} recordings, {took:.1f} s; the model is in {output}")
