#!/usr/bin/env python3
"""
Takes pictures of a run's page into FOLDER: running, starved, a consumer in trouble, ended; on a phone, in dark mode, on
a wall. The runs are real, on the CPU, with the programs in OFFRAMP_BIN_DIR or of this build. Needs Chromium, and a
Python with NumPy and Pillow: build/venv/bin/python.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.browser import Browser  # noqa: E402

DESK, PHONE, WALL = (1280, 800), (360, 800), (1920, 1080)
PROCESSOR = """
import os, pathlib, time
folder = pathlib.Path(__file__).parent
def save(slab):
    if (folder / "hang").exists():
        (folder / "hang").unlink()
        time.sleep(60)
    time.sleep(float((folder / "pace").read_text() or 0))
"""
FLAGS = [
    *"--model cutout --source synthetic --device cpu --batch 4 --image-size 256 --slabs 24".split(),
    *"--consumers 4 --decode-workers 1 --visibility-timeout 8 --http 127.0.0.1:0".split(),
]
SENTENCE = "document.getElementById('sentence').textContent"


class Scene:
    """A run and a browser that shows its page from the start. Owns: both, and their folder."""

    def __init__(self, pictures, browser, *flags):
        self.pictures, self.browser = pictures, browser
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-pictures-"))
        (self.folder / "post.py").write_text(PROCESSOR)
        self.pace(0)
        self.run_dir = self.folder / "run"
        self._run = subprocess.Popen(
            [
                ROOT / "launch/offramp",
                "run",
                *FLAGS,
                *flags,
                "--consumer-python",
                sys.executable,
                "--processor",
                f"{self.folder}/post.py:save",
                "--run-dir",
                self.run_dir,
                "--output",
                self.folder / "output",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        while not (self.run_dir / "targets.json").exists():
            assert self._run.poll() is None, "the run ended immediately"
            time.sleep(0.1)
        browser.screen(*DESK)
        [listed] = json.loads((self.run_dir / "targets.json").read_text())
        browser.show(f"http://{listed['targets'][0]}/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(2):
            with contextlib.suppress(ProcessLookupError):
                self._run.send_signal(signal.SIGINT)
        self._run.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pace(self, seconds):
        """Sets a consumer's seconds per slab."""
        (self.folder / "pace").write_text(str(seconds))

    def status(self):
        return json.loads((self.run_dir / "status.json").read_text())

    def until(self, beginning):
        self.browser.until(f"{SENTENCE}.startsWith({json.dumps(beginning)})")

    def take(self, name, size=DESK, is_dark=False, scale=1):
        from PIL import Image

        path = self.pictures / f"{name}.png"
        self.browser.screen(*size, is_dark, scale)
        time.sleep(1)  # for the layout
        self.browser.picture(path)
        Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        self.browser.screen(*DESK)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def main(pictures):
    pictures.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        with Scene(pictures, browser, "--batches", "100000") as scene:
            scene.until("Compute is the limit")
            time.sleep(45)
            scene.take("running")
            scene.take("wall", WALL)
            scene.pace(1.2)
            scene.until("The model waits for consumers")
            time.sleep(20)
            scene.take("starved")
            scene.take("phone", PHONE, scale=2)
            scene.take("dark", is_dark=True)
            os.kill(scene.status()["consumers"][0]["pid"], signal.SIGKILL)
            (scene.folder / "hang").touch()
            scene.browser.until("document.getElementById('why').textContent.includes('stalled')")
            scene.take("trouble")
        with Scene(pictures, browser, "--batches", "400") as scene:
            scene.until("Ended")
            scene.take("ended")
        assert not browser.errors, browser.errors


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    main(pathlib.Path(sys.argv[1]))
