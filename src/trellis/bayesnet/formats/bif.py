"""BIF, the text format of most published networks (``.bif``; gzipped files are recognised).

    network name { property ...; }
    variable Rain { type discrete [ 2 ] { yes, no }; }
    probability ( Wet | Rain ) { (yes) 0.9, 0.1; (no) 0.0, 1.0; }

Commas separate no more than blanks do, ``|`` may be left out, comments are ``//`` and ``/* */``, properties
are skipped, and names may stand in double quotes. A block of ``probability`` lists rows by the states of the
parents, or ``table`` and all numbers (the variable itself changes slowest, the last parent fastest);
``default`` is the row of all configurations that are not listed.

One regular expression cuts the text into words; rows are then slices of a list, so that no Python code runs
for each number. Every loop uses up words, and tables are never larger than what the file spells out, unless
a ``default`` fills them, up to a limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from trellis.bayesnet.formats.tokens import Tokens, parse_numbers, write_text
from trellis.bayesnet.model.conditional_tables import FILE_TOLERANCE, MOST_AXES, Family, NetworkError
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.variables import Variables, suggestion
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.data.streams import Source, read_utf8, source_name

_TOKENS = re.compile(r'[{}()\[\];|]|"[^"\n]*"|"|[^\s,{}()\[\];|"]+')
# A property on one line is matched whole, as a string is: its text may hold //, as addresses do.
_COMMENTS = re.compile(
    r'"[^"\n]*"|\bproperty[ \t](?:"[^"\n]*"|[^;\n])*+;|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL
)
_PUNCTUATION = frozenset('{}()[];|"')
_PLAIN = re.compile(r'(?!//|/\*)[^\s,{}()\[\];|"]+')


def read_bif(source: Source, *, tolerance: float = FILE_TOLERANCE, encoding: str = "utf-8") -> DirectedModel:
    """The network in a BIF file; its rows are normalised."""
    name = source_name(source)
    text = read_utf8(source, encoding).decode()
    if "//" in text or "/*" in text:
        text = _COMMENTS.sub(lambda match: _blank(match, name, text), text)
    return _Reader(name, text, _TOKENS).network(tolerance)


def write_bif(network: DirectedModel, path: PathLike, *, name: str = "unknown") -> None:
    """Write a network as BIF; numbers are written so that reading gives back every bit."""
    names = [_written(variable, "variable") for variable in network.names]
    states = [[_written(state, "state") for state in values] for values in network.states]
    parts = [f"network {_written(name, 'network')} {{\n}}\n"]
    for variable, values in zip(names, states, strict=True):
        parts.append(
            f"variable {variable} {{\n  type discrete [ {len(values)} ] {{ {', '.join(values)} }};\n}}\n"
        )
    for i, table in enumerate(network.tables):
        parents = network.parent_indices[i]
        rows = table.reshape(-1, table.shape[-1]).tolist()
        numbers = [", ".join(map(repr, row)) for row in rows]
        if not parents:
            parts.append(f"probability ( {names[i]} ) {{\n  table {numbers[0]};\n}}\n")
            continue
        above = ", ".join(names[p] for p in parents)
        places = np.ndindex(*table.shape[:-1])
        keys = (", ".join(states[p][code] for p, code in zip(parents, at, strict=True)) for at in places)
        lines = "".join(f"  ({key}) {row};\n" for key, row in zip(keys, numbers, strict=True))
        parts.append(f"probability ( {names[i]} | {above} ) {{\n{lines}}}\n")
    write_text(path, "".join(parts))


class _Block:
    """A probability block as far as it is read: rows by their number, and where each stands."""

    def __init__(self, family: Family, start: int) -> None:
        self.family, self.start = family, start
        self.shape = [len(family.variables.states[v]) for v in (*family.parents, family.variable)]
        self.n_rows = math.prod(self.shape[:-1])
        self.rows: dict[int, list[float]] = {}
        self.row_at: dict[int, int] = {}
        self.table: FloatArray = np.zeros(0)

    def given(self, number: int) -> str:
        """The states of the parents in a row: its number, written with their sizes as bases."""
        digits = []
        for size in reversed(self.shape[:-1]):
            number, digit = divmod(number, size)
            digits.append(digit)
        return self.family.given(digits[::-1])


class _Reader(Tokens):
    """The blocks of a file; methods take the index of a word and return the index of the word after."""

    _filled = 0  # numbers that default rows stand for

    def network(self, tolerance: float) -> DirectedModel:
        declared, blocks = self._blocks()
        variables = Variables(list(declared), [states for states, _ in declared.values()])
        found: dict[int, _Block] = {}
        for start in blocks:
            block = self._probability(variables, start)
            if found.setdefault(block.family.variable, block) is not block:
                raise self.error(
                    start, f"the variable {block.family.name!r} has a second probability block; keep one"
                )
        for i, (name, (_, at)) in enumerate(declared.items()):
            if i not in found:
                raise self.error(at, f"the variable {name!r} has no probability block; add one")
        ordered = [found[i] for i in range(len(variables))]
        parents, tables = [block.family.parents for block in ordered], [block.table for block in ordered]
        try:
            return DirectedModel.assemble(variables, parents, tables, tolerance=tolerance)
        except NetworkError as error:
            block = found[error.variable]
            raise self.error(block.row_at.get(error.row, block.start), str(error)) from None

    def _blocks(self) -> tuple[dict[str, tuple[list[str], int]], list[int]]:
        """The variables with their states and their places, and the places of the probability blocks."""
        words, i = self.words, 0
        declared: dict[str, tuple[list[str], int]] = {}
        probabilities = []
        while words[i]:
            keyword = words[i]
            if keyword == "variable":
                name = self._name(i + 1)
                if name in declared:
                    raise self.error(i, f"the variable {name!r} is defined twice; rename or remove one")
                states, after = self._variable(name, i + 2)
                declared[name], i = (states, i), after
            elif keyword in ("probability", "network"):
                if keyword == "probability":
                    probabilities.append(i)
                i = self._after_block(i)
            else:
                raise self.error(i, f"expected 'network', 'variable' or 'probability', found {self.found(i)}")
        if not declared:
            raise self.error(0, "this file defines no variables; is it a BIF file?")
        return declared, probabilities

    def _after_block(self, start: int) -> int:
        """The word after the block that begins at ``start``; its properties may hold braces."""
        words, i = self.words, start
        while True:
            try:
                end = words.index("}", i)
            except ValueError:
                raise self.error(start, f"this {words[start]} block has no closing brace") from None
            try:
                i = words.index("property", i, end)
            except ValueError:
                return end + 1
            i = self._after_semicolon(i) if words[i - 1] in ("{", ";") else i + 1

    def _variable(self, name: str, i: int) -> tuple[list[str], int]:
        """The states in a variable's block, whose opening brace is word ``i``; the word after the block."""
        states: list[str] | None = None
        i = self._expect("{", i)
        while self.words[i] != "}":
            if self.words[i] == "property":
                i = self._after_semicolon(i)
            elif self.words[i] == "type" and states is None:
                states, i = self._states(name, i)
            else:
                raise self.error(
                    i, f"expected 'type', 'property' or '}}' for {name!r}, found {self.found(i)}"
                )
        if states is None:
            raise self.error(i, f"the variable {name!r} has no type; add 'type discrete [ 2 ] {{ a, b }};'")
        return states, i + 1

    def _states(self, name: str, start: int) -> tuple[list[str], int]:
        words = self.words
        i = self._expect("[", self._expect("discrete", start + 1))
        size = words[i]
        i = self._expect("{", self._expect("]", i + 1))
        states = []
        while words[i] != "}":
            states.append(self._name(i))
            i += 1
        if size != str(len(states)):
            raise self.error(
                start, f"the variable {name!r} should have {size} states by its type and lists {len(states)}"
            )
        if len(set(states)) != len(states) or not states:
            raise self.error(start, f"the variable {name!r} needs states with different names, at least one")
        return states, self._expect(";", i + 1)

    def _probability(self, variables: Variables, start: int) -> _Block:
        """What a probability block says."""
        words = self.words
        i = self._expect("(", start + 1)
        child = self._known(variables, i)
        i += 2 if words[i + 1] == "|" else 1
        parents = []
        while words[i] != ")":
            parents.append(self._known(variables, i))
            i += 1
        family = Family(variables, child, tuple(parents))
        if len({child, *parents}) != len(parents) + 1:
            raise self.error(start, f"{family.name!r} or one of its parents is named twice here")
        if len(parents) >= MOST_AXES:
            raise self.error(
                start, f"{family.name!r} has {len(parents)} parents; the limit is {MOST_AXES - 1}"
            )
        block = _Block(family, start)
        self._rows(block, self._expect("{", i + 1))
        return block

    def _rows(self, block: _Block, i: int) -> None:
        """The rows of a block, of which word ``i`` is the first."""
        words, family, rows, row_at = self.words, block.family, block.rows, block.row_at
        n_rows, size = block.n_rows, block.shape[-1]
        codes = [family.variables.codes(p) for p in family.parents]
        default: list[float] | None = None
        while words[i] != "}":
            word = words[i]
            if word == "(" and codes:
                row, number = self._row_number(family, codes, i)
                if number in rows:
                    raise self.error(i, f"there is a second row{block.given(number)}; keep one")
                rows[number], row_at[number] = self._numbers(row, size), i
                i = row + size + 1
            elif word == "default" and default is None:
                default = self._numbers(i + 1, size)
                i += size + 2
            elif word == "table" and not rows:
                values = self._numbers(i + 1, n_rows * size)
                rows.update((number, values[number::n_rows]) for number in range(n_rows))
                i += n_rows * size + 2
            elif word == "property":
                i = self._after_semicolon(i)
            else:
                raise self.error(
                    i, f"expected '(', 'table', 'default' or '}}' for {family.name!r}, found {self.found(i)}"
                )
        block.table = self._complete(block, default).reshape(block.shape)

    def _row_number(self, family: Family, codes: Sequence[Mapping[str, int]], i: int) -> tuple[int, int]:
        """The first number of a row, and which row it is: the states of the parents as digits."""
        words = self.words
        number = 0
        for j, known in enumerate(codes, start=i + 1):
            code = known.get(words[j])
            if code is None:
                state = self._name(j)
                code = known.get(state)
                if code is None:
                    name = family.variables.names[family.parents[j - i - 1]]
                    hint = suggestion(state, list(known), "its states")
                    raise self.error(j, f"the variable {name!r} has no state {state!r}{hint}")
            number = number * len(known) + code
        return self._expect(")", i + 1 + len(codes)), number

    def _complete(self, block: _Block, default: list[float] | None) -> FloatArray:
        """All rows; those that are not there are the default."""
        n_rows, name, rows = block.n_rows, block.family.name, block.rows
        if len(rows) == n_rows:
            return np.array([rows[number] for number in range(n_rows)])
        if default is None:
            missing = next(number for number in range(n_rows) if number not in rows)
            raise self.error(block.start, f"the table of {name!r} has no row{block.given(missing)}; add it")
        self._filled += (n_rows - len(rows)) * len(default)
        if self._filled > self.most_filled:
            raise self.error(
                block.start,
                f"with the table of {name!r}, default rows fill {self._filled:,} numbers; the limit for a "
                f"file of this size is {self.most_filled:,}",
            )
        table = np.tile(np.array(default), (n_rows, 1))
        if rows:
            table[list(rows)] = list(rows.values())
        return table

    def _numbers(self, i: int, count: int) -> list[float]:
        """``count`` numbers that end with a semicolon."""
        words = self.words
        values = parse_numbers(words[i : i + count])
        if values is not None and len(values) == count and words[i + count] == ";":
            return values
        for j in range(i, min(i + count, len(self.words))):
            if parse_numbers([self.words[j]]) is None:
                wanted = "a number" if self.words[j] != ";" else f"{count} numbers and then ';'"
                raise self.error(j, f"expected {wanted}, found {self.found(j)}")
        raise self.error(i + count, f"expected ';' after {count} numbers, found {self.found(i + count)}")

    def _expect(self, word: str, i: int) -> int:
        if self.words[min(i, len(self.words) - 1)] != word:
            raise self.error(i, f"expected {word!r}, found {self.found(i)}")
        return i + 1

    def _after_semicolon(self, i: int) -> int:
        try:
            return self.words.index(";", i) + 1
        except ValueError:
            raise self.error(i, f"{self.found(i)} has no ';' at its end") from None

    def _name(self, i: int) -> str:
        word = self.words[min(i, len(self.words) - 1)]
        if word in _PUNCTUATION or word in ("", '""'):
            what = "a quote that is not closed" if word == '"' else self.found(i)
            raise self.error(i, f"expected a name, found {what}")
        return word[1:-1] if word[0] == '"' else word

    def _known(self, variables: Variables, i: int) -> int:
        name = self._name(i)
        try:
            return variables.index(name)
        except DataError as error:
            raise self.error(i, str(error)) from None


def _blank(match: re.Match[str], name: str, text: str) -> str:
    """Line ends in place of a comment, so that lines keep their numbers; strings and properties stay."""
    found = match[0]
    if found[0] != "/":
        return found
    if found.startswith("/*") and not (found.endswith("*/") and len(found) > 3):
        line = text.count("\n", 0, match.start()) + 1
        raise DataError(f"{name}:{line}: this comment is not closed; end it with */")
    return " " + "\n" * found.count("\n")


def _written(name: str, what: str) -> str:
    """A name as it stands in a file: in quotes if it could be mistaken for something else."""
    if _PLAIN.fullmatch(name) and "//" not in name and "/*" not in name:
        return name
    if '"' in name or "\n" in name or "\r" in name or not name:
        raise DataError(
            f"the {what} {name!r} has a quote or a line break, or is empty, which BIF cannot represent; "
            "rename it"
        )
    return f'"{name}"'
