"""Batches: transcripts by name, results in place, a bad recording or a dead process that stops nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from small_speech import open_even, write_json, write_wav
from trellis.core.errors import DataError
from trellis.core.output_files import atomic_writer
from trellis.speech.align.batch_alignment import (
    Job,
    Outcome,
    TranscriptOptions,
    Work,
    align_jobs,
    plan_jobs,
)
from trellis.speech.corpus.transcripts import Transcript, find_transcript, parse_transcript
from trellis.speech.formats.alignment import Alignment

DICTIONARY = open_even()[1]
WORK = Work(open_even, write_json)


def _recording(folder: Path, name: str, phones: str = "h ow", seconds: float = 0.3) -> Path:
    path = folder / f"{name}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".phones").write_text(phones)
    return write_wav(path, seconds)


def _problems(outcomes: list[Outcome]) -> dict[str, str]:
    return {o.audio.stem: o.problem for o in outcomes if o.problem is not None}


def test_results_lie_where_the_recordings_lie(tmp_path: Path) -> None:
    _recording(tmp_path / "in", "x/one")
    _recording(tmp_path / "in", "two")
    alone = _recording(tmp_path / "elsewhere", "three")
    plan = plan_jobs([tmp_path / "in", alone], tmp_path / "out")
    assert [str(job.target.relative_to(tmp_path / "out")) for job in plan.jobs] == ["two", "x/one", "three"]
    assert not plan.problems
    assert not (tmp_path / "out").exists()
    again = plan_jobs([tmp_path / "in"], tmp_path / "out", transcripts=tmp_path / "nowhere")
    assert len(again.problems) == 2
    same = plan_jobs([alone], tmp_path / "out", parse_transcript("a b", None))
    assert same.jobs[0].transcript.phones == ("a", "b")


def test_plans_that_cannot_be(tmp_path: Path) -> None:
    first, second = _recording(tmp_path / "x", "a"), _recording(tmp_path / "y", "a")
    with pytest.raises(DataError, match=r"would both be written to .*out/a; write them to two folders"):
        plan_jobs([first, second], tmp_path / "out")
    with pytest.raises(DataError, match="no such file or folder"):
        plan_jobs([tmp_path / "absent.wav"], tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: there are no recordings here"):
        plan_jobs([tmp_path / "empty"], tmp_path / "out")


def test_unknown_words_are_known_before(tmp_path: Path) -> None:
    for name, words in {"a": "hello you", "b": "hello stranger", "c": "stranger in town"}.items():
        write_wav(tmp_path / f"{name}.wav", 0.2)
        (tmp_path / f"{name}.txt").write_text(words)
    plan = plan_jobs([tmp_path], tmp_path / "out", dictionary=DICTIONARY)
    assert [job.audio.stem for job in plan.jobs] == ["a", "b", "c"]
    assert plan.unknown == {"stranger": 2, "in": 1, "town": 1}
    strict = TranscriptOptions(unknown="error")
    plan = plan_jobs([tmp_path], tmp_path / "out", dictionary=DICTIONARY, options=strict)
    assert [job.audio.stem for job in plan.jobs] == ["a"]
    assert plan.unknown == {"stranger": 2, "in": 1, "town": 1}
    assert "add: stranger in town" in (plan.problems[1].problem or "")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_bad_recording_does_not_stop_the_rest(tmp_path: Path, n_jobs: int) -> None:
    for i in range(6):
        _recording(tmp_path / "in", f"good{i}", "h ow odd" if i == 0 else "h ow")
    _recording(tmp_path / "in", "long", "h " * 100)
    _recording(tmp_path / "in", "bug", "bug")
    (tmp_path / "in" / "broken.wav").write_bytes(b"no sound")
    (tmp_path / "in" / "broken.phones").write_text("h")
    if n_jobs > 1:
        _recording(tmp_path / "in", "deadly", "die")
    plan = plan_jobs([tmp_path / "in"], tmp_path / "out")
    outcomes = list(align_jobs(WORK, plan.jobs, n_jobs))
    problems = _problems(outcomes)
    assert len(outcomes) == len(plan.jobs)
    assert set(problems) == {"long", "bug", "broken", *(["deadly"] if n_jobs > 1 else [])}
    assert "100 phones do not fit" in problems["long"]
    assert problems["bug"] == "KeyError: 'bug' (this is a defect of Trellis; please report it)"
    assert "broken.wav" in problems["broken"]
    if n_jobs > 1:
        assert problems["deadly"].startswith("the process that aligned it died")
    written = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert written == [f"good{i}.json" for i in range(6)]
    assert {o.audio.stem: o.flags for o in outcomes if o.flags} == {"good0": ("phone 1 is odd",)}
    assert sum(o.seconds for o in outcomes) == pytest.approx(6 * 0.3)
    assert Alignment.read(tmp_path / "out" / "good1.json").labels == ("h", "ow")


def _die_while_writing(job: Job, alignment: Alignment) -> None:
    job.target.parent.mkdir(exist_ok=True)
    with atomic_writer(job.target.with_suffix(".json")) as file:
        file.write(b"{")
        file.flush()
        os._exit(1)


def test_a_process_that_dies_leaves_nothing_half_written(tmp_path: Path) -> None:
    _recording(tmp_path / "in", "a"), _recording(tmp_path / "in", "b")
    jobs = plan_jobs([tmp_path / "in"], tmp_path / "out").jobs
    outcomes = list(align_jobs(Work(open_even, _die_while_writing), jobs, n_jobs=2))
    assert sorted(_problems(outcomes)) == ["a", "b"]
    assert list((tmp_path / "out").iterdir()) == []


def test_words_are_aligned_by_the_dictionary(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", 0.2)
    (tmp_path / "a.txt").write_text("Hello you")
    plan = plan_jobs([tmp_path], tmp_path / "out", dictionary=DICTIONARY)
    assert [o.problem for o in align_jobs(WORK, plan.jobs)] == [None]
    made = Alignment.read(tmp_path / "out" / "a.json")
    assert made.labels == ("h", "ow", "y", "uw")
    assert [w.label for w in made.words] == ["Hello", "you"]


def test_what_is_done_and_newer_is_not_done_again(tmp_path: Path) -> None:
    audio = _recording(tmp_path, "a")
    model = tmp_path / "model"
    model.write_bytes(b"")
    job = Job(audio, tmp_path / "out" / "a", find_transcript(tmp_path / "a", False))
    outputs = [tmp_path / "out" / "a.json", tmp_path / "out" / "a.csv"]
    assert not job.is_done(outputs, model)
    outputs[0].parent.mkdir()
    outputs[0].write_text("{}")
    assert not job.is_done(outputs, model)  # one of two is missing
    outputs[1].write_text("")
    for path in outputs:
        os.utime(path, (2_000_000_000, 2_000_000_000))
    assert job.is_done(outputs, model)
    for source in (audio, audio.with_suffix(".phones"), model):
        before = source.stat()
        os.utime(source, (2_000_000_001, 2_000_000_001))
        assert not job.is_done(outputs, model), source
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert job.is_done(outputs, model)


def test_few_jobs_are_under_way_at_a_time(tmp_path: Path) -> None:
    # The first outcome comes when at most two jobs were taken, whatever their number.
    taken = []

    class Counted(list[Job]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            for job in super().__iter__():
                taken.append(job)
                yield job

    audio = _recording(tmp_path, "a")
    said = Transcript(phones=("h",))
    jobs = Counted(Job(audio, tmp_path / "out" / str(i), said) for i in range(50))
    outcomes = align_jobs(WORK, jobs)
    next(outcomes)
    assert len(taken) <= 4
    outcomes.close()
