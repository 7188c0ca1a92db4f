"""``trellis align train``: train an aligner on recordings whose boundaries are known."""

from __future__ import annotations

import time
from typing import Annotated, Any

from trellis.cli.align.corpus_options import CorpusOptions, offer_corpus_options
from trellis.cli.console import check_output, note
from trellis.cli.options import argument, offer_parameters, option
from trellis.cli.train_options import Checkpoint
from trellis.cli.training_output import save_trained, stopped_at_checkpoint
from trellis.core.output_files import check_folder
from trellis.core.progress import terminal_bar
from trellis.core.stage_times import StageTimes, after, stages_in_words
from trellis.speech.align import aligner_parameters as declared
from trellis.training.declarations import N_JOBS

CorpusPath = Annotated[str, argument("CORPUS", "Folder of recordings and their labels, or a CTM file.")]
Output = Annotated[str, option("-o --output MODEL", "Where to write the model; - is standard output.")]
Quiet = Annotated[bool, option("-q --quiet", "Print nothing but errors.")]


@offer_corpus_options
@offer_parameters(
    objective=(declared.OBJECTIVE, "--objective NAME"),
    loss=(declared.LOSS, "--loss"),
    tau_ms=(declared.TAU_MS, "--tau MS"),
    epsilon=(declared.EPSILON, "--epsilon X"),
    classifier=(declared.CLASSIFIER, "--classifier"),
    features=(declared.FEATURES, "--features NAMES"),
    step_ms=(declared.STEP_MS, "--step MS"),
    fold=(declared.FOLD, "--fold"),
    alphabet=(declared.ALPHABET, "--alphabet"),
    unknown_phones=(declared.UNKNOWN_PHONES, "--unknown-phones"),
    cross_fit=(declared.CROSS_FIT, "--cross-fit N"),
    solver=(declared.SOLVER, "--solver NAME"),
    max_iter=(declared.MAX_ITER, "--max-iter N"),
    l2=(declared.L2, "--l2 X"),
    refine=(declared.REFINE, "--refine"),
    decoding=(declared.DECODING, "--decoding"),
    random_state=(declared.RANDOM_STATE, "--seed N"),
    n_jobs=(N_JOBS, "-j --jobs N"),
)
def train(
    corpus: CorpusPath,
    output: Output,
    reading: CorpusOptions,
    checkpoint: Checkpoint = None,
    quiet: Quiet = False,
    **parameters: Any,
) -> None:
    """Train an aligner on a CORPUS with known boundaries."""
    from trellis.speech.align.aligner import Aligner
    from trellis.speech.corpus.label_checks import check_labels, skip_bad_labels

    began, stages = time.perf_counter(), StageTimes()
    check_output(output, "a model", inputs=[corpus])
    if checkpoint is not None:
        check_folder(checkpoint)
    aligner = Aligner(**parameters, checkpoint=checkpoint)
    found = reading.read(corpus)
    labels = parameters["fold"], parameters["alphabet"], parameters["unknown_phones"]
    found = skip_bad_labels(found, *labels) if reading.skip_bad else found
    for name, reason in found.skipped:
        note(f"skipped {name}: {reason.removeprefix(f'{name}: ')}")
    check_labels(found, *labels)
    stages.done("reading")
    with terminal_bar("training", 100, False if quiet else None) as update:
        try:
            aligner.fit(found, None if update is None else lambda stage, share: update(100 * share, stage))
        except KeyboardInterrupt:
            if checkpoint is not None:
                stopped_at_checkpoint(checkpoint)
            if not hasattr(aligner, "model_"):
                raise
    aligner.fit_seconds_ = after(stages.seconds, getattr(aligner, "fit_seconds_", None) or {})
    save_trained(aligner.save, output)
    if not quiet:
        minutes = sum(float(u.reference.duration or 0.0) for u in found if u.reference) / 60
        note(
            f"{aligner.status_}\n{len(found)} recordings, {minutes:.1f} minutes of sound, "
            f"{time.perf_counter() - began:.1f} s ({stages_in_words(aligner.fit_seconds_)}); "
            f"the model is in {output}"
        )
