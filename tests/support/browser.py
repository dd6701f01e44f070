"""A headless Chromium, controlled through a pipe with its DevTools protocol."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WATCHDOG_SECONDS = 60


class Browser:
    """
    Owns: the browser's process, its profile and one page. Blocks: for each answer. Errors: AssertionError without an
    answer in WATCHDOG_SECONDS.
    `errors`: exceptions of the page's scripts, and entries of its log.
    """

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="offramp-browser-")
        theirs_in, self._in = os.pipe()
        self._out, theirs_out = os.pipe()
        flags = [
            *"--headless=new --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe".split(),
            f"--user-data-dir={self._profile.name}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', CHROMIUM, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._received, self._numbers, self._session = b"", itertools.count(1), None
        self.errors = []

    def __enter__(self):
        page = next(each for each in self._call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for what in ("Page", "Runtime", "Log"):
            self._call(f"{what}.enable")
        return self

    def __exit__(self, *_):
        os.close(self._in)  # ends the browser
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        shutil.rmtree(self._profile.name, ignore_errors=True)
        self._profile.cleanup()

    def show(self, url):
        self._call("Page.navigate", url=url)

    def before_each_page(self, script):
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def screen(self, width, height, is_dark=False, scale=1):
        """Resizes the window, in pixels. The page stays loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}],
        )

    def value(self, expression):
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression):
        """The first true value of the expression."""
        end = time.monotonic() + WATCHDOG_SECONDS
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"the page never reached {expression}; its errors: {self.errors}"
            time.sleep(0.05)
        return value

    def picture(self, path):
        """Writes a PNG of the screen."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method, **parameters):
        number = next(self._numbers)
        request = {
            "id": number,
            "method": method,
            "params": parameters,
            **({"sessionId": self._session} if self._session else {}),
        }
        os.write(self._in, json.dumps(request).encode() + b"\0")
        while (message := self._message()).get("id") != number:
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            elif message.get("method") == "Log.entryAdded":
                self.errors.append(message["params"]["entry"])
        assert "error" not in message, message
        return message["result"]

    def _message(self):
        while b"\0" not in self._received:
            more = os.read(self._out, 1 << 16)
            assert more, "the browser has ended"
            self._received += more
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)
