"""What can be known of a plan before anything is aligned: which transcripts have phones that no model knows.

A dictionary in a foreign notation would otherwise fail at every recording, one after the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trellis.core.errors import DataError
from trellis.speech.align.batch_alignment import Job, Outcome, Plan
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.phones.alphabets import guess_alphabet
from trellis.speech.phones.phone_set import PhoneSet

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner


def check_phones(
    plan: Plan, aligner: Aligner, dictionary: Dictionary | None = None, alphabet: str = "auto"
) -> Plan:
    """The plan without jobs whose phones the aligner does not know; these are problems."""
    phones = aligner.model_.acoustics.phones
    readers: dict[str, PhoneSet] = {}
    jobs, problems = [], list(plan.problems)
    written = alphabet
    if dictionary is not None and alphabet == "auto":
        written = guess_alphabet(dictionary.phones, phones.alphabet)
    for job in plan.jobs:
        chosen = written if job.transcript.all_words else job.alphabet
        reader = readers.setdefault(chosen, phones if chosen == "auto" else phones.reading(chosen))
        try:
            reader.encode(_labels(job, dictionary), str(job.audio))
        except DataError as error:
            problems.append(Outcome(job.audio, str(error)))
        else:
            jobs.append(job)
    return replace(plan, jobs=tuple(jobs), problems=tuple(problems))


def _labels(job: Job, dictionary: Dictionary | None) -> list[str]:
    found = dict.fromkeys(job.transcript.all_phones)
    if dictionary is not None:
        for word in dict.fromkeys(job.transcript.all_words):
            if word in dictionary:
                found |= dict.fromkeys(phone for way in dictionary[word] for phone in way.phones)
    return list(found)
