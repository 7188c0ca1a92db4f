"""A recording aligned by the model that comes with Trellis, and a page to listen to."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from trellis.cli.demo.drawings import waveform
from trellis.cli.demo.story import Chapter, Picture, Sizes, Sound, Table

PAGE = "alignment.html"
TITLE = "A recording, aligned"
_SHOWN = "kal16-14"


def tell(sizes: Sizes, folder: Path) -> Chapter:
    if find_spec("soundfile") is None:
        return Chapter(TITLE, ("Skipped; to read sound, run: pip install 'trellis-learn[speech]'",))
    from trellis.report.alignment_page import wav_bytes, write_alignment_page
    from trellis.speech import builtin_aligner, synthetic_corpus
    from trellis.speech.audio.recordings import load_recording
    from trellis.speech.evaluate.boundary_evaluation import evaluate_alignments

    corpus = sorted(synthetic_corpus(), key=lambda u: u.id != _SHOWN)[: sizes.sentences]
    aligner = builtin_aligner()
    found = {
        u.id: aligner.align(u.audio, phones=u.phones, alphabet="arpabet", silence="none") for u in corpus
    }
    references = {u.id: u.reference for u in corpus if u.reference is not None}
    measured = evaluate_alignments(references, found)
    shown = corpus[0]
    sentence = " ".join(shown.words)
    write_alignment_page(folder / PAGE, shown.audio, found[shown.id], references[shown.id], title=sentence)
    sound = load_recording(shown.audio, 16000, None)
    within = tuple(f"{100 * measured.within[ms].value:.1f}" for ms in (10.0, 20.0, 30.0, 50.0))
    parts = (
        f"Where does each phone begin? The builtin model aligns {sizes.sentences} "
        f"sentence{'s' * (sizes.sentences > 1)} of synthetic speech, whose boundaries are known exactly. "
        "This shows that it works, not how well; the builtin model's page says how well it works on people.",
        Table(
            f"{measured.n_boundaries} boundaries, per cent within",
            ("", "10 ms", "20 ms", "30 ms", "50 ms"),
            (("builtin model, no training", *within),),
        ),
        f'"{sentence}": look and listen in {folder / PAGE}, where you can also drag the boundaries.',
        Picture(
            waveform(sound.samples, sound.duration, found[shown.id].phones, references[shown.id].phones),
            f"“{sentence}”: the boundaries found (above) and the true ones (below).",
        ),
        Sound(wav_bytes(sound), PAGE),
    )
    return Chapter(TITLE, parts)
