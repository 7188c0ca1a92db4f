"""``trellis demo``: one story in four chapters, told in the terminal and on a page with its pictures."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, TimeoutError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trellis.cli.console import echo
from trellis.cli.options import option

if TYPE_CHECKING:
    from trellis.cli.demo.story import Chapter, Sizes

Output = Annotated[str, option("-o --output DIR", "Folder for the page.")]
Quick = Annotated[
    bool, option("--quick", "Use little data, to see that everything works but not which method wins.")
]
Processes = Annotated[int | None, option("-j --jobs N", "Number of processes (default: up to 2).", min=1)]

# The order of the story; its first and its last chapter compile most, and start first.
CHAPTERS = ("heart_monitor", "hidden_states", "diagnosis", "recording")
_STARTED = ("heart_monitor", "recording", "hidden_states", "diagnosis")


def demo(output: Output = "demo_output", quick: Quick = False, jobs: Processes = None) -> None:
    """Show what Trellis does, in four short chapters.

    They are: four ways to learn from the same data, hidden states, a network's answer, and an aligned
    recording. This takes about half a minute, and longer the first time, while kernels are compiled.
    """
    from trellis.cli.demo.page import write_page
    from trellis.cli.demo.story import QUICK, Sizes, show
    from trellis.core.output_files import check_folder

    began = time.perf_counter()
    check_folder(output)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    told = []
    for chapter in _tell_all(QUICK if quick else Sizes(), folder, jobs or min(2, os.cpu_count() or 1)):
        told.append(chapter)
        show(len(told), chapter)
    write_page(folder / "index.html", told)
    echo(f"The whole story, with pictures: {folder / 'index.html'}  ({time.perf_counter() - began:.0f} s)")
    echo("Next: trellis train --help, or https://trellis-learn.github.io/trellis/guide")


def tell(name: str, sizes: Sizes, folder: Path) -> Chapter:
    """One chapter by its name."""
    from trellis.cli.demo import diagnosis, heart_monitor, hidden_states, recording

    if name == "heart_monitor":
        return heart_monitor.tell(sizes)
    if name == "hidden_states":
        return hidden_states.tell(sizes)
    return diagnosis.tell() if name == "diagnosis" else recording.tell(sizes, folder)


def _tell_all(sizes: Sizes, folder: Path, jobs: int) -> Iterator[Chapter]:
    """The chapters in order, each as soon as it is ready."""
    if jobs == 1:
        yield from (tell(name, sizes, folder) for name in CHAPTERS)
        return
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_be_quiet) as pool:
        running = {name: pool.submit(tell, name, sizes, folder) for name in _STARTED}
        try:
            for name in CHAPTERS:
                yield _wait(name, running)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _be_quiet() -> None:
    """The terminal belongs to the process that tells the story; errors reach it as exceptions."""
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _wait(name: str, running: dict[str, Future[Chapter]]) -> Chapter:
    from trellis.core.progress import terminal_bar

    wanted = running[name]
    with terminal_bar("computing", len(running), None) as update:
        while True:
            try:
                return wanted.result(timeout=0.25)
            except TimeoutError:
                done = sum(one.done() for one in running.values())
                if update is not None:
                    update(done, f"computing: {name.replace('_', ' ')} (the first run compiles kernels)")
