"""Makes docs/images/studio.png: the studio on a few sentences of a synthetic voice, in headless Chromium.

python scripts/picture_studio.py [MODEL]

Without a MODEL, the built-in one aligns them. It needs the extras studio and test, Chromium and chromedriver.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image

from trellis.speech import synthetic_corpus

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/studio.png"
SPEECH = ROOT / "tests/support/synthetic_speech"  # four voices
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BUILTIN = ROOT / "src/trellis/speech/builtin/builtin.trellis"
VOICE, SENTENCES = "rms", 9


def recordings(folder: Path) -> Path:
    """Sentences with their words beside them, and the dictionary of these."""
    said: dict[str, set[str]] = {}
    for utterance in synthetic_corpus((VOICE,), SPEECH)[:SENTENCES]:
        reference = utterance.reference
        if reference is None:
            continue
        shutil.copy(utterance.audio, folder / utterance.audio.name)
        words = [word.label for word in reference.words]
        (folder / f"{utterance.id}.txt").write_text(" ".join(words), encoding="utf-8")
        for word in reference.words:
            inside = [p.label for p in reference.phones if word.start <= p.start < p.end <= word.end]
            said.setdefault(word.label, set()).add(" ".join(p for p in inside if p != "sil"))
    lines = [f"{word} {phones}\n" for word in sorted(said) for phones in sorted(said[word])]
    (folder.parent / "words.dict").write_text("".join(lines), encoding="utf-8")
    return folder.parent / "words.dict"


def picture(driver: Any, address: str) -> None:
    """One corrected recording, and the least sure start of the next."""
    driver.set_window_size(1400, 940)
    driver.get(address)

    def wait(script: str) -> None:
        for _ in range(600):
            if driver.execute_script(f"return {script}"):
                return
            time.sleep(0.1)
        sys.exit(f"waited in vain for {script}")

    wait("document.documentElement.dataset.ready && !studio.learning.task.is_running")
    first = driver.execute_script("return JSON.stringify(studio.desk.id)")
    driver.execute_script("document.querySelectorAll('#list button')[1].click()")
    wait(f"studio.desk.id !== {first} && studio.desk.phones.length && studio.stage.overview")
    driver.find_element("id", "checked").click()
    wait("studio.desk.state === 'corrected'")
    driver.execute_script("document.querySelector('#list button').click()")
    wait("studio.desk.state === 'untouched' && studio.stage.overview")
    driver.find_element("id", "next").click()
    time.sleep(0.3)
    wait("studio.desk.tiles.underWay === 0")
    driver.execute_script("document.activeElement.blur()")
    time.sleep(0.5)
    driver.save_screenshot(str(PICTURE))
    shown = Image.open(PICTURE).convert("RGB")  # a third of the size, and every colour of the legend:
    shown.quantize(256, Image.Quantize.MAXCOVERAGE).save(PICTURE, optimize=True)


def main() -> None:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    browser, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if browser is None or driver is None:
        sys.exit(
            f"a browser is needed for the picture; install one of {', '.join(BROWSERS)} and chromedriver"
        )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "recordings")
        folder.mkdir()
        words = recordings(folder)
        model = Path(sys.argv[1] if sys.argv[1:] else BUILTIN)
        shutil.copy(model, place)
        program = [sys.executable, "-c", "from trellis.cli import main; main()", "align", "studio"]
        command = [*program, model.name, "recordings", "-d", str(words), "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=place)
        options = Options()
        options.binary_location = browser
        for option in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars"):
            options.add_argument(f"--{option}")
        window = webdriver.Chrome(options=options, service=Service(driver))
        try:
            picture(window, server.stdout.readline().strip() if server.stdout else "")
        finally:
            window.quit()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
