"""ELAN's annotation files (``.eaf``, XML): the tiers words and phones, in whole milliseconds.

A tier holds annotations that refer to time slots. Gaps stay gaps: intervals with an empty label are not
written. Tiers whose annotations refer to other annotations instead of times are skipped when reading.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from xml.etree.ElementTree import Element, SubElement

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval, Tier, check_tier, tidy
from trellis.speech.formats.text_files import parse_number, read_text, write_text
from trellis.speech.formats.textgrid import choose_tiers

_PER_SECOND = 1000
_TYPE = "intervals"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def read_elan(
    path: PathLike,
    phones: str | None = None,
    words: str | None = None,
    duration: float | None = None,
    encoding: str | None = None,
) -> Alignment:
    """Phones and words of an ELAN file; tiers are chosen as in TextGrids.

    The file does not contain the length of its recording: give ``duration``.
    """
    shown = os.fspath(path)
    text = read_text(path, encoding)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # entities can make a small file large
        raise DataError(f"{shown}: ELAN files define no entities; save it again in ELAN")
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))
    except ElementTree.ParseError as error:
        raise DataError(f"{shown}:{error.position[0]}: this is not XML ({error}); save it again") from error
    if root.tag != "ANNOTATION_DOCUMENT":
        raise DataError(f"{shown}: this is not an ELAN file; its first element is {root.tag}")
    slots = {s.get("TIME_SLOT_ID", ""): s.get("TIME_VALUE") for s in root.iter("TIME_SLOT")}
    tiers = {t.get("TIER_ID", ""): _read_tier(t, slots, shown) for t in root.iter("TIER")}
    found = choose_tiers(shown, {name: tier for name, tier in tiers.items() if tier}, phones, words)
    return Alignment(*found, duration=duration, source=shown)


def _read_tier(tier: Element, slots: dict[str, str | None], shown: str) -> Tier:
    intervals = []
    for one in tier.iter("ALIGNABLE_ANNOTATION"):
        where = f"{shown}: annotation {one.get('ANNOTATION_ID')} of the tier {tier.get('TIER_ID')!r}"
        times = [slots.get(one.get(end, "")) for end in ("TIME_SLOT_REF1", "TIME_SLOT_REF2")]
        if None in times:
            raise DataError(f"{where} has no time of its own; give it one in ELAN")
        start, end = (parse_number(str(time), where, "time") / _PER_SECOND for time in times)
        intervals.append(Interval(start, end, one.findtext("ANNOTATION_VALUE") or ""))
    intervals.sort(key=lambda interval: interval.start)
    return check_tier(tidy(intervals), f"tier {tier.get('TIER_ID')!r}, annotation", shown)


def write_elan(alignment: Alignment, path: PathLike) -> None:
    """The tiers words (if there are any) and phones."""
    root = Element("ANNOTATION_DOCUMENT", AUTHOR="", FORMAT="3.0", VERSION="3.0")
    root.set("DATE", "1970-01-01T00:00:00+00:00")  # mandatory; equal alignments give equal files
    root.set("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance")
    root.set("xsi:noNamespaceSchemaLocation", "http://www.mpi.nl/tools/elan/EAFv3.0.xsd")
    header = SubElement(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    if alignment.source:
        name = os.path.basename(alignment.source)
        place = {"MEDIA_URL": f"./{name}", "RELATIVE_MEDIA_URL": f"./{name}"}
        SubElement(header, "MEDIA_DESCRIPTOR", {**place, "MIME_TYPE": "audio/x-wav"})
    order = SubElement(root, "TIME_ORDER")
    for name in ("words", "phones") if alignment.words else ("phones",):
        tier = SubElement(root, "TIER", TIER_ID=name, LINGUISTIC_TYPE_REF=_TYPE)
        for interval in alignment.tier(name):
            if interval.label:
                _add(tier, order, interval, os.fspath(path))
    order[:] = sorted(order, key=lambda slot: int(slot.get("TIME_VALUE", 0)))  # as the format demands
    SubElement(root, "LINGUISTIC_TYPE", LINGUISTIC_TYPE_ID=_TYPE, TIME_ALIGNABLE="true")
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    write_text(path, head + ElementTree.tostring(root, encoding="unicode") + "\n")


def _add(tier: Element, order: Element, interval: Interval, shown: str) -> None:
    """One annotation, and the two time slots that it refers to."""
    start, end = (round(time * _PER_SECOND) for time in (interval.start, interval.end))
    if start == end or _NOT_XML.search(interval.label):
        what = "no control characters" if start < end else "nothing shorter than a millisecond"
        raise DataError(f"{shown}: ELAN files hold {what} ({interval.label!r}); write JSON instead")
    numbers = len(order) + 1, len(order) + 2
    for n, time in zip(numbers, (start, end), strict=True):
        SubElement(order, "TIME_SLOT", TIME_SLOT_ID=f"ts{n}", TIME_VALUE=str(time))
    names = {"TIME_SLOT_REF1": f"ts{numbers[0]}", "TIME_SLOT_REF2": f"ts{numbers[1]}"}
    outer = SubElement(tier, "ANNOTATION")
    inner = SubElement(outer, "ALIGNABLE_ANNOTATION", {"ANNOTATION_ID": f"a{numbers[1] // 2}", **names})
    SubElement(inner, "ANNOTATION_VALUE").text = interval.label
