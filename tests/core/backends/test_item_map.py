"""Plain maps: the same answers on threads, processes and workers; errors and deaths of single items."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import small_networks
import tone_speech
from item_work import make_deadly, make_square, noisy_threshold, square
from small_speech import open_even, write_json, write_wav
from trellis.core.backends.dask_backend import DaskBackend
from trellis.core.backends.item_map import Failure, answers_in_order, map_items
from trellis.core.errors import ClusterError, DataError
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.batch_alignment import Work, align_jobs, plan_jobs
from trellis.theory import simulate_learning_curve

WAYS: dict[str, dict[str, Any]] = {
    "here": {},
    "threads": {"backend": "threads"},
    "processes": {"n_processes": 2},
    "cluster": {},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskBackend]:
    backend = DaskBackend("processes:2")
    yield backend
    backend.close()


@pytest.fixture
def where(request: pytest.FixtureRequest, cluster: DaskBackend) -> dict[str, Any]:
    return {"backend": cluster} if request.param == "cluster" else WAYS[request.param]


@pytest.mark.parametrize("where", WAYS, indirect=True)
def test_every_item_has_an_answer_or_its_error(where: dict[str, Any], tmp_path: Path) -> None:
    items = [*range(12), -1, 5]
    found = dict(map_items(partial(make_square, tmp_path / "made"), items, **where))
    assert sorted(found) == list(range(14))
    for i, x in enumerate(items):
        if x >= 0:
            assert found[i] == square(x)
        else:
            assert isinstance(found[i], Failure)
            assert str(found[i].error) == "-1 is negative"
    made = (tmp_path / "made").read_text(encoding="utf-8").split()
    assert len(made) == len(set(made)) <= 2  # once in each process


def test_an_item_that_kills_its_process_takes_no_other_with_it(tmp_path: Path) -> None:
    found = dict(map_items(partial(make_deadly, tmp_path), range(9), n_processes=2))
    assert found == {i: Failure(None) if i == 7 else square(i) for i in range(9)}


@pytest.mark.cluster
def test_an_item_that_kills_workers_takes_no_other_with_it(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),  # each death costs some seconds
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as own,
        closing(DaskBackend(own)) as backend,
    ):
        found = dict(map_items(partial(make_deadly, tmp_path), range(9), backend=backend))
    assert found == {i: Failure(None) if i == 7 else square(i) for i in range(9)}


def test_answers_in_order_raise_what_an_item_raised(cluster: DaskBackend) -> None:
    told: list[tuple[int, int]] = []
    found = answers_in_order(make_square, [3, 1, 2], backend=cluster, told=lambda *n: told.append(n))
    assert found == [square(3), square(1), square(2)]
    assert told == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(DataError, match="-4 is negative"):
        answers_in_order(make_square, [1, -4], backend=cluster)
    assert answers_in_order(make_square, [], backend=cluster) == []


def test_recordings_are_aligned_on_workers_and_written_here(cluster: DaskBackend, tmp_path: Path) -> None:
    for i in range(6):
        write_wav(tmp_path / f"r{i}.wav")
        said = "a odd b" if i == 2 else " ".join("p" * (200 if i == 4 else 2))
        (tmp_path / f"r{i}.phones").write_text(said, encoding="utf-8")
    texts = []
    for name, backend in (("there", cluster), ("here", None)):
        plan = plan_jobs([tmp_path], tmp_path / name)
        outcomes = sorted(
            align_jobs(Work(open_even, write_json), plan.jobs, backend=backend), key=lambda o: o.audio
        )
        assert [o.audio.stem for o in outcomes if o.problem is not None] == ["r4"]
        assert "200 phones do not fit" in str(outcomes[4].problem)
        assert outcomes[2].flags == ("phone 1 is odd",)
        texts.append({p.name: p.read_text(encoding="utf-8") for p in (tmp_path / name).iterdir()})
    assert texts[0] == texts[1]
    assert len(texts[0]) == 5


def test_a_corpus_is_aligned_the_same_on_workers(cluster: DaskBackend, tmp_path: Path) -> None:
    corpus = tone_speech.corpus(tmp_path, 12)
    small = ConvolutionalOptions(units=8, passes=2, fewest_steps=2, end_to_end_passes=0)
    aligner = Aligner("log", classifier=small).fit(corpus)
    here, there = (aligner.align_corpus(corpus, backend=b, confidence=True) for b in (None, cluster))
    assert list(here) == [u.id for u in corpus]
    for name, alignment in here.items():
        np.testing.assert_array_equal(alignment.starts, there[name].starts)
        assert alignment.confidence == there[name].confidence
    assert aligner.evaluate(corpus, backend=cluster).n_boundaries == aligner.evaluate(corpus).n_boundaries


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_evidence_are_solved_to_the_same_digits(
    seed: int, cluster: DaskBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trellis.bayesnet.inference import evidence_batches

    monkeypatch.setattr(evidence_batches, "PIECE", 7)
    monkeypatch.setattr(evidence_batches, "PIECE_ALONE", 3)
    rng = np.random.default_rng(seed)
    network = small_networks.random_network(rng, 6)
    names, states = network.names, network.states
    frame = {
        name: [None if rng.random() < 0.5 else str(rng.choice(states[v])) for _ in range(40)]
        for v, name in enumerate(names)
    }
    told: list[int] = []
    here = network.predict_proba(frame, impossible="nan")
    for backend in (cluster, "threads"):
        there = network.predict_proba(
            frame, impossible="nan", backend=backend, progress=lambda done, n: told.append(n)
        )
        for name, shares in here.items():
            np.testing.assert_array_equal(there[name], shares)
    assert told == [told[0]] * 2 * told[0]  # each piece of both, by their number
    assert told[0] > 2


def test_a_simulation_has_the_same_numbers_on_workers(cluster: DaskBackend, tmp_path: Path) -> None:
    stump = DecisionTreeClassifier(max_depth=1)
    here, there = (
        simulate_learning_curve(noisy_threshold, stump, [10, 20], 9, n_test=100, backend=b, **more)
        for b, more in (("threads", {}), (cluster, {"checkpoint": tmp_path / "run"}))
    )
    for one, other in zip(here.samples, there.samples, strict=True):
        np.testing.assert_array_equal(one.train, other.train)
        np.testing.assert_array_equal(one.true, other.true)


def test_a_deadly_piece_is_said_so() -> None:
    from trellis.core.backends.item_map import answer_of

    with pytest.raises(ClusterError, match="piece 3 died"):
        answer_of(Failure(None), 2)
