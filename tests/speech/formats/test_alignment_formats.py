"""Alignments survive their formats; TextGrids agree with praatio; bad files name their line."""

from __future__ import annotations

import codecs
import math
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from praatio import textgrid as praat

from trellis.core.errors import DataError, TrellisError
from trellis.speech import Alignment, Interval
from trellis.speech.formats import FORMATS, get_format, read_alignment, write_alignment
from trellis.speech.formats.ctm import read_ctm_file
from trellis.speech.formats.textgrid import read_textgrid, read_textgrid_tiers

Tier = tuple[Interval, ...]
TICKS = {"phn": 16000, "lab": 10**7, "ctm": 10**6, "audacity": 10**6}  # per second
END = 30_000.0
LABEL = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6)
TRICKY = st.sampled_from(
    ['"', '""', "a\"b'c", "'s", "t͡ɬ'ː", "item [2]:", "xmin = 3", "! no", "<exists>", '"x" 3 "y"', ""]
)
ANY = st.one_of(LABEL, TRICKY, st.just("two\nlines"))
WORD = st.one_of(LABEL, TRICKY).map(lambda text: "".join(text.split()))


@st.composite
def tiers(draw: st.DrawFn, unit: float, labels: st.SearchStrategy[str]) -> Tier:
    """Intervals of whole ticks, some missing, of two microseconds or more: shorter gaps are closed."""
    step = math.ceil(2e-6 * unit)
    ticks = sorted(
        step * i for i in draw(st.sets(st.integers(0, 400_000_000 // step), min_size=2, max_size=9))
    )
    kept = [pair for pair in pairwise(ticks) if draw(st.booleans())]
    return tuple(Interval(a / unit, b / unit, draw(labels)) for a, b in kept)


def round_trip(alignment: Alignment, name: str, **options: object) -> Alignment:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a" + FORMATS[name].suffixes[0])
        write_alignment(alignment, path)
        return read_alignment(path, **options)


def assert_same(one: Tier, other: Tier, to: float = 0.0) -> None:
    assert [i.label for i in one] == [i.label for i in other]
    for a, b in zip(one, other, strict=True):
        assert abs(a.start - b.start) <= to
        assert abs(a.end - b.end) <= to


@given(tiers(math.pi * 1e6, ANY), tiers(1e6, ANY), st.data())
def test_json_keeps_everything(phones: Tier, words: Tier, data: st.DataObject) -> None:
    sure = data.draw(st.lists(st.floats(0, 1), min_size=len(phones), max_size=len(phones)))
    margins = tuple(10 * c for c in sure) or None
    alignment = Alignment(phones, words, 500.0, tuple(sure) or None, ("odd", "ödd"), "here", -1.5, margins)
    assert round_trip(alignment, "json") == alignment


@given(tiers(math.e * 1e6, ANY), tiers(1e6, ANY))
def test_csv_keeps_both_tiers_to_the_last_digit(phones: Tier, words: Tier) -> None:
    back = round_trip(Alignment(phones, words, 500.0), "csv", duration=500.0)
    assert (back.phones, back.words, back.duration) == (phones, words, 500.0)


@given(tiers(math.pi * 1e6, ANY), tiers(1e6, ANY), st.booleans(), st.sampled_from(["utf-8", "utf-16"]))
def test_textgrid_keeps_both_tiers_with_gaps_filled(
    phones: Tier, words: Tier, short: bool, encoding: str
) -> None:
    alignment = Alignment(phones, words, 500.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.TextGrid")
        alignment.to_textgrid(path, short=short, encoding=encoding)
        back = Alignment.read(path)
    filled = alignment.filled()
    assert back.words == filled.words
    assert back.phones == (filled.phones or (Interval(0.0, 500.0, ""),))
    assert back.duration == 500.0


@given(tiers(1e6, LABEL.map(str.strip)), tiers(1e6, LABEL.map(str.strip)), st.booleans())
def test_textgrids_agree_with_praatio_both_ways(phones: Tier, words: Tier, short: bool) -> None:
    alignment = Alignment(phones or (Interval(0.0, 1.0, "a"),), words or (Interval(0.0, 2.0, "b"),), 500.0)
    filled = alignment.filled()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.TextGrid")
        alignment.to_textgrid(path, short=short)
        theirs = praat.openTextgrid(str(path), includeEmptyIntervals=True)
        assert theirs.tierNames == ("words", "phones")
        for tier, mine in zip(theirs.tiers, (filled.words, filled.phones), strict=True):
            assert [(e.start, e.end, e.label) for e in tier.entries] == [
                (i.start, i.end, i.label.strip()) for i in mine
            ]
        form = "short_textgrid" if short else "long_textgrid"
        theirs.save(str(path), form, includeBlankSpaces=True)
        back = Alignment.read(path)
    assert_same(back.phones, filled.phones)
    assert_same(back.words, filled.words)


@pytest.mark.parametrize("name", TICKS)
@given(data=st.data())
def test_line_formats_keep_labels_and_ticks(name: str, data: st.DataObject) -> None:
    phones = data.draw(tiers(TICKS[name], LABEL if name in ("audacity", "lab") else WORD))
    phones += (Interval(29_000.0, 29_001.0, "end"),)  # a CTM without lines names no recording
    alignment = Alignment(phones, duration=END)
    back = round_trip(alignment, name, duration=END)
    if name == "audacity":
        assert_same(back.phones, phones, to=1e-9)
        return
    assert_same(back.phones, tuple(i for i in phones if i.label), to=1e-9)
    # what was left out comes back as the gap that it means
    silent = alignment.filled().normalise_silence({""}, "")
    assert_same(back.filled().phones, silent.phones, to=1e-9)


@pytest.mark.parametrize("name", ["phn", "ctm"])
def test_a_label_with_a_blank_is_refused_where_it_cannot_be_held(name: str, tmp_path: Path) -> None:
    alignment = Alignment((Interval(0, 1, "New York"),))
    path = tmp_path / "x"
    with pytest.raises(DataError, match="cannot store the label 'New York'"):
        write_alignment(alignment, path, name)
    assert not list(tmp_path.iterdir())


def test_known_lines_of_each_format(tmp_path: Path) -> None:
    alignment = Alignment(
        (Interval(0, 0.25, "sil"), Interval(0.25, 0.5, "ah")), confidence=(1.0, 0.75), duration=0.5
    )
    expected = {
        "lab": "0 2500000 sil\n2500000 5000000 ah\n",
        "phn": "0 4000 sil\n4000 8000 ah\n",
        "audacity": "0.000000\t0.250000\tsil\n0.250000\t0.500000\tah\n",
        "ctm": "x 1 0.000000 0.250000 sil 1.0\nx 1 0.250000 0.250000 ah 0.75\n",
        "csv": "tier,start,end,label,confidence\nphones,0,0.25,sil,1.0\nphones,0.25,0.5,ah,0.75\n",
    }
    for name, text in expected.items():
        path = tmp_path / f"x{FORMATS[name].suffixes[0]}"
        alignment.write(path)
        assert path.read_text() == text
        back = Alignment.read(path)
        assert back.phones == alignment.phones
        assert back.confidence == (alignment.confidence if name in ("ctm", "csv") else None)
        assert back.duration == 0.5


def test_ctm_holds_many_recordings_out_of_order_with_comments(tmp_path: Path) -> None:
    path = tmp_path / "all.ctm"
    one = Alignment((Interval(0, 0.1, "a"), Interval(0.1, 0.3, "b")), confidence=(math.nan, 0.5))
    one.write(path, id="one")
    path.write_text(";; made by hand\ntwo A 0.50 0.31 d\ntwo A 0.2 0.3 c 0.9\n" + path.read_text())
    found = read_ctm_file(path)
    assert set(found) == {"one", "two"}
    assert found["two"].labels == ("c", "d")
    assert found["two"].confidence is not None
    assert found["two"].confidence[0] == 0.9
    assert math.isnan(found["two"].confidence[1])
    assert_same(found["one"].phones, one.phones, to=1e-9)
    with pytest.raises(DataError, match=r"which recording.*one of: two, one"):
        Alignment.read(path)
    assert Alignment.read(path, id="one").labels == ("a", "b")


def test_rounded_times_that_overlap_are_mended(tmp_path: Path) -> None:
    path = tmp_path / "x.ctm"
    path.write_text("x 1 0.00 0.13 a\nx 1 0.12 0.10 b\n")
    assert Alignment.read(path).phones[0].end == 0.12
    path.write_text("x 1 0.00 0.30 a\nx 1 0.12 0.10 b\n")
    with pytest.raises(DataError, match=r"x\.ctm \(x\): phone 2 \('b'.*starts before the previous one ends"):
        Alignment.read(path)


def test_timit_words_may_share_a_phone(tmp_path: Path) -> None:
    path = tmp_path / "SX1.WRD"
    path.write_text("1600 8000 she\n6400 9600 had\n")
    assert Alignment.read(path).words == (Interval(0.1, 0.4, "she"), Interval(0.4, 0.6, "had"))


def test_htk_scores_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "x.lab"
    path.write_text('0 1000000 \'a b\' -3.5\n1000000 2000000 "it\\"s"\n2000000 3000000 ʃ -7.1 shop\n')
    assert Alignment.read(path).labels == ("a b", 'it"s', "ʃ")


def test_audacity_spectral_lines_and_missing_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("0.0\t0.5\ta\n\\\t100.0\t200.0\n0.5\t0.7\n")
    assert Alignment.read(path).phones == (Interval(0, 0.5, "a"), Interval(0.5, 0.7, ""))


GRID = """File type = "ooTextFile"
Object class = "TextGrid"

0 ! the beginning
2.5
<exists>
3
"IntervalTier" "{words}" 0 2.5 1
0 2.5 "hi"
"TextTier" "tones" 0 2.5 2
0.5 "H*"
1.5 "L*"
"IntervalTier" "{phones}" 0 2.5 2
0 1.25 "h"
1.25 2.5 "aɪ"
"""


@pytest.mark.parametrize(
    "content",
    [
        GRID.encode(),
        codecs.BOM_UTF8 + GRID.encode(),
        codecs.BOM_UTF16_BE + GRID.encode("utf-16-be"),
        codecs.BOM_UTF16_LE + GRID.encode("utf-16-le"),
        GRID.replace("\n", "\r\n").encode(),
    ],
    ids=["utf8", "utf8-bom", "utf16-be", "utf16-le", "crlf"],
)
def test_short_textgrids_in_every_encoding(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.TextGrid"
    path.write_bytes(content.replace(b"{words}", b"words").replace(b"{phones}", b"phones"))
    if content[:2] in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE):
        text = content.decode("utf-16").format(words="words", phones="phones")
        path.write_bytes(text.encode("utf-16"))
    found = read_textgrid(path)
    assert found.phones == (Interval(0, 1.25, "h"), Interval(1.25, 2.5, "aɪ"))
    assert found.words == (Interval(0, 2.5, "hi"),)
    assert found.duration == 2.5


@pytest.mark.parametrize(
    ("words", "phones"), [("Word", "Phone"), ("ORT-MAU", "MAU"), ("anna - words", "anna - phones")]
)
def test_usual_tier_names_are_guessed(words: str, phones: str, tmp_path: Path) -> None:
    path = tmp_path / "x.TextGrid"
    path.write_text(GRID.format(words=words, phones=phones))
    assert read_textgrid(path).labels == ("h", "aɪ")
    assert len(read_textgrid(path).words) == 1


def test_unusual_tier_names_must_be_given_and_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "x.TextGrid"
    path.write_text(GRID.format(words="utterance", phones="narrow"))
    with pytest.raises(DataError, match="usual name for phones; give one of 'utterance', 'narrow'"):
        read_textgrid(path)
    with pytest.raises(DataError, match="no tier 'broad' for the phones; the interval tiers are 'utterance'"):
        read_textgrid(path, phones="broad")
    found = read_textgrid(path, phones="narrow", words="utterance")
    assert found.labels == ("h", "aɪ")
    assert [w.label for w in found.words] == ["hi"]
    assert list(read_textgrid_tiers(path).tiers) == ["utterance", "narrow"]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("x.TextGrid", "hello", "not a TextGrid"),
        ("x.TextGrid", "ooBinaryFile\x08TextGrid", "this TextGrid is binary"),
        (
            "x.TextGrid",
            "\n".join(GRID.split("\n")[:13]),
            r"x.TextGrid:13: the file ends where xmin is expected",
        ),
        ("x.TextGrid", GRID.replace('1.25 "h"', '"h"'), r"x.TextGrid:14: '\"h\"' where xmax is expected"),
        ("x.TextGrid", GRID.replace("0 1.25", "0 1.5"), r"interval 2 \('aɪ', 1.25 to 2.5 s\) starts before"),
        ("x.TextGrid", GRID.replace("{words}", "{phones}"), "two tiers are called"),
        ("x.lab", "0 100\n", r"x.lab:1: '0 100' does not have the form: start end label"),
        ("x.lab", "0 100 a\n100 x b\n", r"x.lab:2: the time is 'x', not a number"),
        ("x.phn", "0 100 a\n100 200 b c\n", r"x.phn:2"),
        ("x.phn", "100 100 a\n", "phone 1.*does not end after it starts"),
        ("x.phn", "-5 100 a\n", "starts before 0 s"),
        ("x.ctm", "x 1 0.5 a\n", r"x.ctm:1: .* does not have the form: id channel start length label"),
        ("x.ctm", "x 1 nan 1 a\n", r"x.ctm:1: the start is nan"),
        ("x.ctm", "x 1 0 1 a\nx 2 0 1 a\n", "several channels"),
        ("x.txt", "0 1 a\n", r"x.txt:1: .* does not have the form: start, tab, end, tab, label"),
        ("x.csv", "a,b\n", r"x.csv:1: no column tier, start, end, label"),
        ("x.csv", "tier,start,end,label\nphones,0,one,a\n", r"x.csv:2: the end is 'one'"),
        ("x.csv", "tier,start,end,label\nphones,0\n", r"x.csv:2: a row needs"),
        ("x.json", "{", r"x.json:1: this is not JSON"),
        ("x.json", "[]", "this is not an alignment"),
        ("x.json", '{"format": "trellis-alignment", "version": 2}', "version 2"),
        ("x.json", '{"format": "trellis-alignment", "version": 1, "phones": [{}]}', "lists of start, end"),
        ("x.json", '{"format": "trellis-alignment", "version": 1, "phones": 3}', "lists of start, end"),
        ("x.mp4", "", "no format has the suffix '.mp4'"),
    ],
)
def test_bad_files_get_one_sentence(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=sentence) as caught:
        Alignment.read(path)
    assert "\n" not in str(caught.value)


def test_bad_places_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        Alignment.read(tmp_path / "none.lab")
    (tmp_path / "folder.lab").mkdir()
    with pytest.raises(DataError, match="this is a folder"):
        Alignment.read(tmp_path / "folder.lab")
    (tmp_path / "x.lab").write_bytes(b"0 10000 \xff\n")
    with pytest.raises(DataError, match="not utf-8"):
        Alignment.read(tmp_path / "x.lab")
    assert Alignment.read(tmp_path / "x.lab", encoding="latin-1").labels == ("ÿ",)
    with pytest.raises(DataError, match="no format 'praat'; choose one of textgrid"):
        get_format("x", "praat")
    with pytest.raises(TrellisError, match="does not exist"):
        Alignment((Interval(0, 1, "a"),)).write(tmp_path / "nowhere" / "x.json")


def test_alignment_checks_itself() -> None:
    a, b = Interval(0, 1, "a"), Interval(1, 2, "b")
    assert Alignment((a, b)).duration == 2
    with pytest.raises(DataError, match=r"phone 2 .'a'.*starts before"):
        Alignment((b, a))
    with pytest.raises(DataError, match="confidence: 1 values for 2 phones"):
        Alignment((a, b), confidence=(1.0,))
    with pytest.raises(DataError, match=r"ends at 2 s, after the end at 1\.5 s"):
        Alignment((a, b), duration=1.5)
    with pytest.raises(DataError, match="not a number"):
        Alignment((Interval(0, math.inf, "a"),))
    with pytest.raises(DataError, match="2 start times for 1 labels"):
        Alignment.from_starts([0, 1], ["a"], 2)
    made = Alignment.from_starts([0, 1], ["a", "b"], 2, words=(Interval(0, 2, "ab"),))
    assert made.phones == (a, b)
    assert made.starts.tolist() == [0, 1]


def test_gaps_are_filled_and_short_ones_closed() -> None:
    gaps = (Interval(0.005, 1, "a"), Interval(1.01, 2, "b"), Interval(2.5, 3, "c"))
    alignment = Alignment(gaps, duration=4, confidence=(0.1, 0.2, 0.3), margins=(1.0, 2.0, 3.0))
    filled = alignment.filled("sil", shortest=0.02)
    assert filled.phones == (
        Interval(0, 1.01, "a"),
        Interval(1.01, 2, "b"),
        Interval(2, 2.5, "sil"),
        Interval(2.5, 3, "c"),
        Interval(3, 4, "sil"),
    )
    assert filled.confidence is not None
    assert filled.confidence[:2] == (0.1, 0.2)
    assert (filled.confidence[3], filled.margins[3]) == (0.3, 3.0)
    assert all(map(math.isnan, (filled.confidence[2], filled.confidence[4])))
    back = round_trip(filled, "json")
    assert back.confidence is not None
    assert math.isnan(back.confidence[2])


def test_silences_get_one_name_and_merge() -> None:
    labels = ["h#", "pau", "a", "", "<P:>", "SIL", "b"]
    alignment = Alignment.from_starts(range(7), labels, 7, confidence=tuple(i / 10 for i in range(7)))
    told = alignment.normalise_silence()
    assert told.labels == ("sil", "a", "sil", "b")
    assert told.starts.tolist() == [0, 2, 3, 6]
    assert told.confidence == (0.0, 0.2, 0.3, 0.6)
    assert alignment.normalise_silence({"pau"}, "PAUSE").labels == ("h#", "PAUSE", *labels[2:])
    assert alignment.truncate(2.5).labels == ("h#", "pau", "a")
    assert alignment.truncate(2.5).phones[-1].end == 2.5


@pytest.mark.parametrize("suffix", [".lab", ".phn"])
def test_seconds_are_not_taken_for_ticks(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"seconds{suffix}"
    path.write_text("0 0.25 h\n0.25 0.5 i\n")
    with pytest.raises(DataError, match=r":1: the time is 0\.25; it must be a whole number of"):
        Alignment.read(path)


def test_elan(tmp_path: Path) -> None:
    """Words and phones come back in whole milliseconds; gaps and empty labels stay gaps."""
    path = tmp_path / "talk.eaf"
    made = Alignment(
        phones=(Interval(0.1, 0.2004, '<"&ɐ̃'), Interval(0.2004, 0.3, "b"), Interval(0.3, 0.5, "")),
        words=(Interval(0.1, 0.3, "two words"),),
        duration=1.0,
        source="/far/away/talk.wav",
    )
    made.write(path)
    found = Alignment.read(path, duration=1.0)
    assert [(p.start, p.end, p.label) for p in found.phones] == [(0.1, 0.2, '<"&ɐ̃'), (0.2, 0.3, "b")]
    assert [(w.start, w.end, w.label) for w in found.words] == [(0.1, 0.3, "two words")]
    assert found.duration == 1.0
    content = path.read_text("utf-8")
    assert 'RELATIVE_MEDIA_URL="./talk.wav"' in content
    times = [int(time) for time in re.findall(r'TIME_VALUE="(\d+)"', content)]
    assert times == sorted(times) == [100, 100, 200, 200, 300, 300]
    assert "/far/away" not in content
    made.write(path)
    assert path.read_text("utf-8") == content


ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="250"/><TIME_SLOT TIME_SLOT_ID="t2" TIME_VALUE="400"/>
<TIME_SLOT TIME_SLOT_ID="t3"/><TIME_SLOT TIME_SLOT_ID="t4" TIME_VALUE="0"/></TIME_ORDER>
<TIER TIER_ID="Sounds"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="t1"
 TIME_SLOT_REF2="FROM"><ANNOTATION_VALUE>b</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="t4" TIME_SLOT_REF2="t1">
<ANNOTATION_VALUE>a</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="gloss"><ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" ANNOTATION_REF="a1">
<ANNOTATION_VALUE>x</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER></ANNOTATION_DOCUMENT>"""


def test_elan_by_others(tmp_path: Path) -> None:
    """Annotations out of order, a tier of another name, and one without times of its own."""
    path = tmp_path / "x.eaf"
    path.write_text(ELAN.replace("FROM", "t2"))
    for options in ({}, {"phones": "Sounds"}):
        found = Alignment.read(path, **options)
        assert [(p.start, p.end, p.label) for p in found.phones] == [(0.0, 0.25, "a"), (0.25, 0.4, "b")]
    for content, sentence in (
        (ELAN.replace("FROM", "t3"), "annotation a1 of the tier 'Sounds' has no time of its own"),
        (ELAN.replace("FROM", "t4"), "does not end after it starts"),
        (ELAN[:-30], "x.eaf:10: this is not XML"),
        ("<html/>", "this is not an ELAN file; its first element is html"),
        (ELAN.replace("ALIGNABLE", "REF").replace("FROM", "t2"), "give one of none"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=sentence):
            Alignment.read(path)


@pytest.mark.parametrize(("end", "label"), [(0.5, "\x07"), (0.1001, "a")])
def test_what_elan_cannot_hold(end: float, label: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ELAN files hold no"):
        Alignment((Interval(0.1, end, label),)).write(tmp_path / "x.eaf")
    assert not list(tmp_path.iterdir())
