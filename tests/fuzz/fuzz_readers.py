"""Every reader of text and sound: files to begin from, what once went wrong, what to do with what is read."""

from __future__ import annotations

import io
import random
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from fuzz_mutations import mutate_sound, mutate_text

from trellis.core.errors import TrellisError
from trellis.speech.formats import FORMATS
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval

BIF = """network n { }
variable Rain { type discrete [ 2 ] { yes, no }; }
variable Wet { type discrete [ 2 ] { yes, no }; }
probability ( Rain ) { table 0.2, 0.8; }
probability ( Wet | Rain ) { (yes) 0.9, 0.1; (no) 0.2, 0.8; }
"""
UAI = "MARKOV\n3\n2 2 3\n2\n2 0 1\n2 1 2\n4  0.4 0.6 0.7 0.3\n6  1 2 3 4 5 6\n"
BAYES = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n2  0.2 0.8\n4  0.9 0.1 0.2 0.8\n"
FG = "1\n\n2\n0 1\n2 2\n4\n0 0.5\n1 0.25\n2 1\n3 2\n"
DIGITS = "9" * 5000


@dataclass(frozen=True)
class Reader:
    """``use`` reads a file and works with it; it may raise a ``TrellisError`` and nothing else."""

    use: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    suffix: str = ".txt"
    finds: Callable[[], Sequence[bytes]] = tuple
    mutate: Callable[[random.Random, bytes], bytes] = mutate_text

    def make(self, rng: random.Random, path: Path) -> tuple[Path, str]:
        content = self.mutate(rng, rng.choice(_kept(self.seeds)))
        path = path.with_suffix(self.suffix)
        path.write_bytes(content)
        return path, repr(content[:100])

    def known(self, path: Path) -> list[tuple[Path, str]]:
        """The files that once went wrong, and the sound ones."""
        made = []
        for i, content in enumerate([*_kept(self.seeds), *_kept(self.finds)]):
            file = path.with_name(f"known{i}{self.suffix}")
            file.write_bytes(content)
            made.append((file, repr(content[:100])))
        return made


@cache
def _kept(contents: Callable[[], Sequence[bytes]]) -> Sequence[bytes]:
    return contents()


def _texts(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]


def _allowed(call: Callable[[], object]) -> None:
    with suppress(TrellisError):
        call()


def _columns(path: Path) -> None:
    from trellis.data.columns import iter_column_blocks, read_columns
    from trellis.features.template_encoder import TemplateEncoder
    from trellis.features.templates import Template

    data = read_columns(path)
    if data.n_columns > 1:
        data.sequences(-1)
        data.without(0)
    for block in iter_column_blocks(path, 1):
        block.tagged(np.zeros(block.n_steps, int), ["L"])
    TemplateEncoder(Template.builtin(data.n_columns)).fit(data)


def _conllu(path: Path) -> None:
    from trellis.data.columns import read_conllu

    read_conllu(path).sequences(1)


def _attributes(path: Path) -> None:
    from trellis.data.attributes import iter_attribute_blocks, read_attributes

    read_attributes(path).labels()
    for _ in iter_attribute_blocks(path, 1):
        pass


def _any_format(path: Path) -> None:
    """As ``trellis train`` reads its file."""
    from trellis.data.shard_files.input_format import choose_format
    from trellis.data.streams import read_utf8

    text = read_utf8(path)
    layout = choose_format(text, str(path), None)
    data = layout.parse(text, str(path))
    layout.labels(data)
    layout.inputs(data)
    for block in layout.blocks(path, 2):
        layout.inputs(block)


def _numbers(path: Path) -> None:
    """As ``trellis report`` reads observations."""
    from trellis.cli.pages.number_files import read_number_table

    assert all(len(one) for one in read_number_table(str(path)))


def _graphs(path: Path) -> None:
    from trellis.structures.graph import read_graphs, write_graphs

    graphs, labels = read_graphs(path)
    if graphs and labels is not None:
        _allowed(lambda: write_graphs(path.with_name("again.npz"), graphs, labels))


def _graph_files() -> list[bytes]:
    from trellis import Graph
    from trellis.structures.graph import write_graphs

    graphs = [Graph.grid(np.ones((2, 3))), Graph([[1.0], [2.0]], [(0, 1)])]
    packed, plain = io.BytesIO(), io.BytesIO()
    write_graphs(packed, graphs, [np.zeros((2, 3), int), [1, 0]])
    np.savez(plain, nodes=np.ones((2, 1)), edges=[[0, 1]], labels=["a", "b"])
    return [packed.getvalue(), plain.getvalue()]


def _template(path: Path) -> None:
    from trellis.data.columns import ColumnData
    from trellis.features.template_encoder import TemplateEncoder
    from trellis.features.templates import Template

    encoder = TemplateEncoder(Template.read(path))
    encoder.fit(ColumnData.from_sequences([[("a", "b"), ("c", "d")], [("e", "f")]]))
    encoder.feature_names()


def _alignment(path: Path) -> None:
    found = Alignment.read(path)
    for name, entry in FORMATS.items():
        _allowed(
            lambda name=name, entry=entry: found.write(path.with_name("again" + entry.suffixes[0]), name)
        )


def _dictionary(path: Path) -> None:
    from trellis.speech.corpus.dictionary import Dictionary

    found = Dictionary.read(path)
    found.missing(["read", "x"])
    assert found.phones
    Dictionary.read(path, strip_stress=True)


def _transcript(path: Path) -> None:
    from trellis.speech.corpus.transcripts import find_transcript

    for dictionary in (False, True):
        _allowed(lambda dictionary=dictionary: find_transcript(path.with_suffix(""), dictionary))


def _textgrid_transcript(path: Path) -> None:
    from trellis.speech.corpus.textgrid_transcripts import read_textgrid_transcript
    from trellis.speech.formats.conversation import read_conversation

    for keep_words in (False, True):
        _allowed(lambda keep_words=keep_words: read_textgrid_transcript(path, keep_words=keep_words))
    _allowed(lambda: read_conversation(path).to_textgrid(path.with_name("again.TextGrid")))


def _labels(path: Path) -> None:
    """Whatever a label is, it is read or refused, in every alphabet and folding."""
    from trellis.speech.formats.text_files import read_text
    from trellis.speech.phones.alphabets import ALPHABETS, ambiguous, guess_alphabet
    from trellis.speech.phones.articulation import articulatory_features
    from trellis.speech.phones.folding import FOLDINGS, Folding
    from trellis.speech.phones.nearest_phones import describe_unknown

    labels = read_text(path).split()
    guess_alphabet(labels)
    ambiguous(labels)
    for label in labels:
        for alphabet in ALPHABETS:
            _allowed(lambda label=label, alphabet=alphabet: articulatory_features(label, alphabet))
            assert articulatory_features(label, alphabet, "other") is not None
            for name in FOLDINGS:
                assert Folding(name, alphabet, "noise")(label)
    describe_unknown(labels[:3] or ["x"], ["a", "b", "sil"], "ipa", False)


def _conversations() -> list[bytes]:
    """Utterances by speaker, and what comes of them."""
    from trellis.speech.formats.textgrid import write_textgrid_tiers

    tiers = {
        ("Anna", "Ben"): (
            (Interval(0.0, 0.4, "hi you"), Interval(0.6, 1.0, "x")),
            (Interval(0.2, 0.9, 'a "b"'),),
        ),
        ("Anna - words", "Anna - phones"): ((Interval(0.0, 0.4, "hi"),), (Interval(0.0, 0.4, "aɪ"),)),
        ("words",): ((Interval(0.0, 0.4, "hi"), Interval(0.5, 0.7, "<usb>")),),
    }
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.TextGrid")
        for names, contents in tiers.items():
            for short in (False, True):
                write_textgrid_tiers(list(zip(names, contents, strict=True)), 1.0, path, short)
                found.append(path.read_bytes())
    return [*found, found[0].decode().encode("utf-16")]


def _sound(path: Path) -> None:
    from trellis.speech.audio.cepstra import mfcc
    from trellis.speech.audio.recordings import audio_info, load_recording

    audio_info(path)
    recording = load_recording(path)
    mfcc(recording.samples[:20_000], recording.rate)


def _network(path: Path) -> None:
    from trellis.bayesnet import read_model

    model = read_model(path)
    _allowed(lambda: model.query(None, {}))
    _allowed(lambda: model.mpe({}))


def _rows(path: Path) -> None:
    from trellis.bayesnet.formats.row_tables import read_rows

    model = _small_network()
    model.predict(read_rows(str(path), model.variables))


def _evidence(path: Path) -> None:
    from trellis.bayesnet.formats.uai import read_evidence

    read_evidence(path, _small_network())


@cache
def _small_network():
    from trellis.bayesnet import BayesianNetwork

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "n.bif")
        path.write_text(BIF)
        return BayesianNetwork.read(path)


def _written(name: str) -> Callable[[], Sequence[bytes]]:
    """A sound alignment in each format."""

    def seeds() -> list[bytes]:
        phones = [
            Interval(0.0, 0.1, "sil"),
            Interval(0.1, 0.2, "h"),
            Interval(0.2, 0.4, "aɪ"),
            Interval(0.4, 0.5, "sil"),
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a" + FORMATS[name].suffixes[0])
            words = () if name in ("lab", "phn", "ctm", "audacity") else (Interval(0.1, 0.4, 'hi "x"'),)
            Alignment(tuple(phones), words, duration=0.5).write(path)
            content = path.read_bytes()
        if name != "textgrid":
            return [content]
        short = (
            'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n0.5\n<exists>\n1\n"IntervalTier"\n'
            '"phones"\n0\n0.5\n2\n0\n0.2\n"a"\n0.2\n0.5\n"b ""q"""\n'
        )
        return [content, content.decode().encode("utf-16"), short.encode()]

    return seeds


ALIGNMENT_FINDS = {
    "json": _texts(
        '{"duration": "", "phones": []}', "[" * 100_000 + "]" * 100_000, '{"duration": ' + DIGITS + "}"
    ),
    "elan": lambda: [_laughs(), b"<A>" * 20_000 + b"</A>" * 20_000],
    "csv": _texts('tier,start,end,label\nphones,0,1,"' + "a" * 200_000 + '"\n'),
    "textgrid": _texts(f'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n1\n<exists>\n{DIGITS}\n'),
    "lab": _texts(f"0 {DIGITS} a\n"),
    "phn": _texts(f"0 {DIGITS} a\n"),
    "ctm": _texts(f"x 1 0 {DIGITS} a\n"),
}


def _laughs() -> bytes:
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    return f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">{entities}]><A>&l11;</A>'.encode()


def _sounds() -> list[bytes]:
    soundfile = __import__("soundfile")
    samples = 0.1 * np.random.default_rng(0).normal(size=4000)
    found = []
    for kind, subtype in (
        ("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("WAV", "FLOAT"), ("OGG", "VORBIS"), ("NIST", "PCM_16"),
        ("AIFF", "PCM_16"), ("WAV", "IMA_ADPCM"), ("AU", "PCM_16"),
    ):  # fmt: skip
        stream = io.BytesIO()
        soundfile.write(stream, samples, 16000, format=kind, subtype=subtype)
        found.append(stream.getvalue())
    return found


def _bad_sounds() -> list[bytes]:
    """Headers that ask for more than the file can hold."""
    sounds = _sounds()
    found = []
    for rate in (1, 7, 2_100_000_000, 2**31 - 1):
        changed = bytearray(sounds[0])
        struct.pack_into("<I", changed, 24, rate)
        found.append(bytes(changed))
    changed = bytearray(sounds[1])  # FLAC: 36 bits of the number of samples, in bytes 21 to 25
    changed[21] |= 0x0F
    changed[22:26] = b"\xff" * 4
    return [*found, bytes(changed)]


READERS: dict[str, Reader] = {
    "columns": Reader(
        _columns,
        _texts("the DT B-NP\ncat NN I-NP\n\nsees VB B-VP\n", "a\tb\tO\n\ne\tf\tX\n", "x y\r\n\r\nq w\r\n"),
    ),
    "conllu": Reader(
        _conllu,
        _texts(
            "# text = a b\n1\tThe\tthe\tDET\tDT\t_\t2\td\t_\t_\n2\tcat\tcat\tNOUN\tNN\tN=S\t0\tr\t_\t_\n",
            "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\tde\tADP\t_\t_\t0\tr\t_\t_\n2\tle\tle\tD\t_\t_\t1\td\t_\t_\n",
        ),
        ".conllu",
    ),
    "attributes": Reader(
        _attributes, _texts("B-NP\tw=the\tpos=DT:1.5\tx\\:y\nI-NP\tw=cat\tz:2\n\nO\tw=.\n")
    ),
    "input of train": Reader(_any_format, _texts("a b O\nc d X\n\ne f O\n", "O\tw=a\tv:2\n\nX\tw=b\n")),
    "numbers": Reader(
        _numbers, _texts("level,time\n1.5,2\n,NaN\n\n3,1e300\n", "0\n1\n\n1\n", "1 2\n3\t4\n"), ".csv",
        _texts(f"{DIGITS}\n", "inf\n1\n", "1,2\n1\n", "a\n", "٣\n"),
    ),
    "graphs": Reader(_graphs, _graph_files, ".npz"),
    "template": Reader(
        _template,
        _texts("# Unigram\nU00:%x[-2,0]\nU01:%x[-1,0]/%x[0,0]\nU02:%prefix2[0,1]\n\nB01:%x[0,0]\nB\n"),
        finds=_texts(
            f"U:%x[{DIGITS},0]\n", f"U:%x[0,{DIGITS}]\n", f"U:%prefix{DIGITS}[0,0]\n", "U:%x[٣,0]\n"
        ),
    ),
    "dictionary": Reader(
        _dictionary,
        _texts(
            ";;; c\nREAD  R EH1 D\nREAD(2)  R IY1 D\n'bout B AW1 T # x\n",
            "read\t0.9\t0.1\t1.2\t0.8\tr ɛ d\nhi\th aɪ\n",
        ),
        ".dict",
        _texts(
            "a b\n # a note\n", " # a note\n", "\t\n", "a\t\n", f"a\t{DIGITS}\tb\n", "a\tnan\tb\n",
            f"a({DIGITS}) b\n",
        ),
    ),
    "words": Reader(_transcript, _texts("Don't stop — now.\n"), ".txt"),
    "phones": Reader(_transcript, _texts("sil h aɪ sil\n"), ".phones"),
    "timed words": Reader(
        _transcript, _texts("0 1000000 sil\n1000000 3000000 a\n"), ".lab", _texts(f"0 {DIGITS} a\n")
    ),
    "utterances": Reader(
        _textgrid_transcript, _conversations, ".TextGrid", ALIGNMENT_FINDS["textgrid"]
    ),
    "labels": Reader(
        _labels,
        _texts("p t͡ʃʰ ãː ⁿd ɡ͡b r̥ a͜ɪ spn <usb> a? e3 k’", "HH AH0 tcl ax-h p\\_< r\\` |\\|\\ t_S @` {: _h"),
        finds=_texts("\u0361 \u0303 a\u0361 _ ) _< < > ` 12 {} <> () '", "ʰ ⁿ ǃǃ kǃ ʔ ʔʔ hh 1a a1a"),
    ),
    "sound": Reader(_sound, _sounds, ".wav", _bad_sounds, mutate_sound),
    "bif": Reader(
        _network,
        _texts(BIF),
        ".bif",
        _texts(f"network n {{ }}\nvariable A {{ type discrete [ {DIGITS} ] {{ a }}; }}\n"),
    ),
    "uai": Reader(
        _network,
        _texts(UAI, BAYES),
        ".uai",
        _texts(f"MARKOV\n1\n{DIGITS}\n0\n", "MARKOV\n1\n1000000000\n1\n1 0\n1000000000\n1\n"),
    ),
    "fg": Reader(
        _network, _texts(FG), ".fg", _texts(f"1\n\n1\n0\n{DIGITS}\n0\n", "1\n\n1\n0\n1000000000\n0\n")
    ),
    "rows": Reader(
        _rows,
        _texts("Rain,Wet\nyes,\n,yes\n", "Rain\tWet\nyes\t\nno\tyes\n"),
        ".csv",
        _texts('Rain\n"' + "a" * 200_000 + '"\n'),
    ),
    "evidence": Reader(
        _evidence, _texts("1\n1 0 1\n", "2 0 0 1 1\n"), ".evid", _texts(f"{DIGITS} 0 1\n", f"1 0 {DIGITS}\n")
    ),
    **{
        name: Reader(_alignment, _written(name), entry.suffixes[0], ALIGNMENT_FINDS.get(name, tuple))
        for name, entry in FORMATS.items()
    },
}  # fmt: skip
