"""``trellis align studio``: align, check, correct and learn, on a page on this machine."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trellis.cli.align.run import Channel, DictionaryFile, Jobs, Model, StripStress, Transcripts
from trellis.cli.console import echo, note
from trellis.cli.options import Encoding, argument, option
from trellis.cli.process import stop_code

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner
    from trellis.speech.corpus.dictionary import Dictionary

Recordings = Annotated[str, argument("RECORDINGS", "Folder of recordings with their transcripts.")]
Port = Annotated[int, option("--port N", "Port to listen on; 0 takes any free port.", min=0, max=65535)]
NoBrowser = Annotated[bool, option("--no-browser", "Only print the address; do not open a browser.")]
SaveModel = Annotated[
    str | None,
    option(
        "--save-model FILE",
        "Where to write the adapted model (default: RECORDINGS/.trellis-studio/model.trellis).",
    ),
]


def studio(
    model: Model,
    recordings: Recordings,
    dictionary: DictionaryFile = None,
    strip_stress: StripStress = False,
    transcripts: Transcripts = None,
    channel: Channel = None,
    encoding: Encoding = None,
    jobs: Jobs = 1,
    save_model: SaveModel = None,
    port: Port = 0,
    no_browser: NoBrowser = False,
) -> None:
    """Align, correct and learn, on a page on this machine.

    Every correction is saved at once as a TextGrid beside the recording. Existing TextGrids are loaded as
    corrected alignments. The page is served to this machine only, at an address with a secret token.
    """
    from trellis.studio.server import listen, require_extra, serve

    require_extra()
    from trellis.core.output_files import check_destination, check_folder
    from trellis.studio.workspace import Settings, Workspace

    if save_model is not None:
        check_destination(save_model)
    open_model = partial(_open_model, dictionary, strip_stress, encoding)
    pronunciations = open_model(model)[1]  # also checks whether the model can be loaded
    settings = Settings(
        model,
        Path(recordings),
        open_model,
        None if transcripts is None else Path(transcripts),
        channel,
        jobs,
        encoding,
        None if save_model is None else Path(save_model),
    )
    workspace = Workspace(settings, pronunciations)
    check_folder(workspace.folder.home)
    listener = listen(port)
    workspace.folder.lock()
    given = sum(desk.state == "given" for desk in workspace.desks)
    if given:
        note(f"{given} of {len(workspace.desks)} recordings already have TextGrids, which count as corrected")
    if not serve(workspace, listener, partial(_announce, no_browser)):
        # A recording is being aligned still. Every file is replaced in one step, so nothing can be half
        # written; waiting for the thread would take as long as the recording needs.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(stop_code() or 130)
    raise typer.Exit(stop_code() or 130)  # nothing but a signal ends it, and some are told to ignore Ctrl-C


def _open_model(
    dictionary: str | None, strip_stress: bool, encoding: str | None, model: str
) -> tuple[Aligner, Dictionary | None]:
    from trellis.cli.align import models

    return models.open_aligner(model, dictionary, strip_stress, encoding)


def _announce(no_browser: bool, address: str) -> None:
    echo(address)
    sys.stdout.flush()
    note("open this address in a browser on this machine to use the studio; press Ctrl-C to stop it")
    if not no_browser:
        _open_browser(address)


def _open_browser(address: str) -> None:
    """By a file that only this user can read: every user of the machine can see a browser's arguments."""
    import atexit
    import tempfile
    import webbrowser

    descriptor, path = tempfile.mkstemp(".html", "trellis-studio-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}">')
    atexit.register(lambda: Path(path).unlink(missing_ok=True))
    webbrowser.open(Path(path).as_uri())
