"""Tiles hold what the samples say, at every level; sound comes by byte ranges of one WAV file."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from small_speech import write_wav
from trellis.core.errors import DataError
from trellis.studio.picture_tiles import COLUMNS, FINE, FINEST, LEVELS, ROWS, PictureTiles
from trellis.studio.sound_pieces import PieceCache, SoundPieces

SECONDS = 23.7


@pytest.fixture(scope="module", params=[8000, 16000, 44100])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SoundPieces:
    path = tmp_path_factory.mktemp("sound") / "a.wav"
    write_wav(path, SECONDS, request.param, (1000.0, 0.0, 3000.0))
    return SoundPieces(path, None, PieceCache(max_bytes=2**20))  # holds not even one piece more


@pytest.fixture(scope="module")
def tiles(sound: SoundPieces) -> PictureTiles:
    """All levels of one sound, as the studio draws them: its loudness is measured once."""
    return PictureTiles(sound)


def _tile(tiles: PictureTiles, level: int, number: int) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    content = tiles.tile(level, number)
    points = 2 * FINE * COLUMNS
    assert len(content) == 2 * points + ROWS * COLUMNS
    peaks = np.frombuffer(content, "<i2", points).reshape(-1, 2)
    return peaks, np.frombuffer(content, np.uint8, offset=2 * points).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("level", range(LEVELS))
def test_the_waveform_spans_the_samples(sound: SoundPieces, tiles: PictureTiles, level: int) -> None:
    every = sound.samples(0, sound.n_samples)
    found = [_tile(tiles, level, n)[0] for n in {0, tiles.n_tiles(level) // 2, tiles.n_tiles(level) - 1}]
    column = FINEST * 2**level * sound.rate
    for number, peaks in zip({0, tiles.n_tiles(level) // 2, tiles.n_tiles(level) - 1}, found, strict=True):
        edges = np.round((number * COLUMNS + np.arange(COLUMNS * FINE + 1) / FINE) * column).astype(int)
        for i in (0, 7, COLUMNS * FINE // 3, COLUMNS * FINE - 1):
            part = every[edges[i] : max(edges[i + 1], edges[i] + 1)]
            if len(part):
                assert peaks[i, 0] <= part.min()  # peaks may span a little more, never less
                assert peaks[i, 1] >= part.max()
                wider = every[max(0, edges[i] - 256) : edges[i + 1] + 256]
                assert peaks[i, 1] <= max(wider.max(), 0)
            else:
                assert not peaks[i].any()  # after the end


def test_a_tone_is_seen_where_it_is(sound: SoundPieces, tiles: PictureTiles) -> None:
    top = min(8000.0, sound.rate / 2)
    for level in (1, 5, 8):
        length = FINEST * 2**level * COLUMNS
        for time, hertz in ((3.0, 1000.0), (19.0, 3000.0)):
            picture = _tile(tiles, level, int(time / length))[1]
            column = int((time % length) / length * COLUMNS)
            row = int(picture[:, column].argmax())
            assert abs((row + 0.5) * top / ROWS - hertz) < 1.5 * top / ROWS + sound.rate * 0.004
            assert picture[:, column].max() > 200
        silent = _tile(tiles, level, int(12.0 / length))[1]
        assert silent[:, int((12.0 % length) / length * COLUMNS)].max() == 0


def test_the_same_tile_is_computed_once(sound: SoundPieces, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = PictureTiles(sound)
    first = tiles.tile(3, 2)
    monkeypatch.setattr(sound, "samples", None)
    assert tiles.tile(3, 2) is first
    for level, number in ((-1, 0), (LEVELS, 0), (0, -1), (3, tiles.n_tiles(3))):
        with pytest.raises(DataError, match="no tile"):
            tiles.tile(level, number)


def test_the_overview_spans_the_recording(sound: SoundPieces) -> None:
    pairs = np.frombuffer(PictureTiles(sound).overview(300), "<i2").reshape(-1, 2)
    assert len(pairs) == 300
    loud = pairs[:, 1] > 10000
    assert loud[:95].all()
    assert not loud[105:195].any()
    assert loud[205:299].all()


def test_the_wav_is_one_that_others_read(sound: SoundPieces) -> None:
    with wave.open(io.BytesIO(sound.wav(0, sound.n_bytes))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (
            sound.rate,
            1,
            sound.n_samples,
        )
        samples = np.frombuffer(file.readframes(sound.n_samples), "<i2")
    np.testing.assert_array_equal(samples, sound.samples(0, sound.n_samples))


@given(data=st.data())
def test_any_range_of_bytes(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "range.wav"
    if not path.exists():
        write_wav(path, 21.0, 8000, (500.0, 700.0))
    sound = SoundPieces(path, None, PieceCache())
    whole = path.read_bytes()
    first = data.draw(st.integers(0, len(whole) - 1) | st.integers(0, 60) | st.integers(160030, 160060))
    last = data.draw(st.integers(first, min(len(whole), first + 4000)))
    # float samples and back may cost one step of 16 bits; the header and the length are exact
    found = sound.wav(first, last)
    assert len(found) == last - first
    if last <= 44:
        assert found == whole[first:last]
    even = (max(first, 44) + 1) // 2 * 2
    a = np.frombuffer(found[even - first :][: (last - even) // 2 * 2], "<i2").astype(int)
    b = np.frombuffer(whole[even:last][: (last - even) // 2 * 2], "<i2").astype(int)
    assert np.abs(a - b).max(initial=0) <= 1


def test_silence_around_the_recording(tmp_path: Path) -> None:
    sound = SoundPieces(write_wav(tmp_path / "a.wav", 0.01, 16000), None, PieceCache())
    assert len(sound.samples(-5, 3)) == 8
    assert not sound.samples(-5, 0).any()
    assert len(sound.samples(158, 170)) == 12
    assert not sound.samples(200, 205).any()
    assert len(sound.samples(200, 205)) == 5
    assert PictureTiles(sound).n_tiles(0) == 1
    PictureTiles(sound).tile(0, 0)
