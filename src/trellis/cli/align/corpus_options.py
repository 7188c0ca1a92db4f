"""The options of every command that learns from a corpus of recordings, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from trellis.cli.align.choices import CorpusLayout
from trellis.cli.options import Encoding, option
from trellis.core.errors import UnsupportedError

if TYPE_CHECKING:
    from trellis.speech.corpus.corpus import Corpus

Layout = Annotated[CorpusLayout | None, option("--layout", "Layout of the corpus; by default, detected.")]
AudioFolder = Annotated[
    str | None, option("--audio DIR", "Folder of the recordings, if they are not beside the labels.")
]
PhoneTier = Annotated[str | None, option("--phone-tier NAME", "Name of the tier of phones in TextGrids.")]
WordTier = Annotated[str | None, option("--word-tier NAME", "Name of the tier of words in TextGrids.")]
Split = Annotated[str | None, option("--split NAME|FILE", "For TIMIT: train, test, or a file of ids.")]
Channel = Annotated[int | None, option("--channel N", "Channel to use, counted from 0.", min=0)]
SkipBad = Annotated[bool, option("--skip-bad", "Skip recordings that cannot be used instead of stopping.")]

# an option as its reader names it -> as the command line does, where these differ
_ON_THE_COMMAND_LINE = {"phones": "--phone-tier", "words": "--word-tier"}
_TAKEN = {
    "textgrids": ("phones", "words", "audio", "channel"),
    "timit": ("split",),
    "labs": ("audio", "channel"),
    "ctm": ("audio", "channel"),
    "json": ("audio", "channel"),
}


@dataclass(frozen=True)
class CorpusOptions:
    """How a corpus is read."""

    layout: Layout = None
    audio: AudioFolder = None
    phone_tier: PhoneTier = None
    word_tier: WordTier = None
    split: Split = None
    channel: Channel = None
    skip_bad: SkipBad = False
    encoding: Encoding = None

    def read(self, corpus: str) -> Corpus:
        """The corpus; an option that its layout does not have is refused."""
        from trellis.speech.corpus.corpus import Corpus
        from trellis.speech.corpus.corpus_files import guess_layout

        layout = self.layout or guess_layout(corpus)
        tiers = {"phones": self.phone_tier, "words": self.word_tier}
        options = {**tiers, "audio": self.audio, "split": self.split, "channel": self.channel}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        foreign = sorted(set(given) - set(_TAKEN[layout]))
        if foreign:
            named = _ON_THE_COMMAND_LINE.get(foreign[0], f"--{foreign[0]}")
            raise UnsupportedError(f"{named} does not apply to a corpus with layout {layout}; leave it out")
        return Corpus.read(corpus, layout, skip_bad=self.skip_bad, encoding=self.encoding, **given)


def offer_corpus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options in place of its argument ``reading``, in which they reach it together."""
    signature = inspect.signature(command)
    kinds = get_type_hints(CorpusOptions, include_extras=True)
    offered = [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=kinds[one.name]
        )
        for one in fields(CorpusOptions)
    ]
    own = list(signature.parameters.values())
    place = next(i for i, one in enumerate(own) if one.name == "reading")

    @wraps(command)
    def with_options(**given: Any) -> None:
        command(reading=CorpusOptions(**{one.name: given.pop(one.name) for one in offered}), **given)

    after = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own[place + 1 :]]
    parameters = [*own[:place], *offered, *after]
    vars(with_options)["__signature__"] = signature.replace(parameters=parameters)
    return with_options
