"""A real Chromium without a window, driven by the DevTools protocol over a pair of pipes: no port, no driver."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell", "chromium-headless-shell")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")


def chromium() -> str:
    """The program; "" where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


class Browser:
    """One page. `console` are its errors and warnings, `requests` what it fetched but for its own file and data."""

    def __init__(self, ends: tuple[int, int]) -> None:
        self._out, self._in = ends
        self._rest, self._ids, self._session = b"", itertools.count(1), ""
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str, *, width: int = 1240, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of this size, and wait until its plots are drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        self._call("Page.navigate", url=url)
        ready = "document.readyState === 'complete' && typeof drawn !== 'undefined' && (drawn || !$('notice').hidden)"
        self.js(f"new Promise(done => {{ const wait = () => {ready} ? done(1) : setTimeout(wait, 50); wait(); }})")
        self.settle()

    def js(self, text: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self._call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", answer))
        return answer["result"].get("value")

    def settle(self) -> None:
        """Let the page draw what it has to."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """`mousePressed`, `mouseMoved` or `mouseReleased`, in pixels of the window."""
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press, move and release the left button."""
        left = {"button": "left", "buttons": 1, "clickCount": 1}
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, **left)
        for part in (0.3, 0.6, 1.0):
            x, y = (a + part * (b - a) for a, b in zip(start, end, strict=True))
            self.mouse("mouseMoved", x, y, **left)
        self.mouse("mouseReleased", *end, **left)
        self.settle()

    def shot(self, path: Path, *, height: int = 0) -> None:
        """A picture of the window, or of the page down to `height`."""
        whole = {"x": 0, "y": 0, "width": self.js("innerWidth"), "height": height, "scale": 1}
        more: dict[str, Any] = {"clip": whole, "captureBeyondViewport": True} if height else {}
        answer = self._call("Page.captureScreenshot", format="png", **more)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        session = {"sessionId": self._session} if self._session else {}
        order = {"id": number, "method": method, "params": params, **session}
        os.write(self._out, json.dumps(order).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                result: dict[str, Any] = message["result"]
                return result
            self._note(message.get("method", ""), message.get("params", {}))

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 16)
            assert data, "Chromium is gone"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.requests.append(url)
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" or params.get("type") in ("error", "warning"):
            self.console.append(str(params))


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A Chromium that ends with the block; `profile` is an empty directory of its own."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    pipes = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    command = ["bash", "-c", pipes, chromium(), *FLAGS, f"--user-data-dir={profile}"]
    quiet = subprocess.DEVNULL
    pipes_of_its = (theirs_in, theirs_out)
    with subprocess.Popen(command, pass_fds=pipes_of_its, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            one = Browser((ours_out, ours_in))
            yield one
            with contextlib.suppress(AssertionError, OSError):
                one._session = ""
                one._call("Browser.close")
            process.wait(300)
        finally:
            process.kill()
            os.close(ours_out)
            os.close(ours_in)
