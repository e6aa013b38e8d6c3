"""`report --serve`: a campaign's page while it runs, from a real server, over ssh, and in a real browser."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser, chromium
from tests.engines.ports import free_port
from tests.waiting import until

FAST = {"proposer": "grid", "baseline": 1, "retests": 0, "confirm": False, "space": {"lr": [0.2, 0.3]}, "count": 3}


class Serving:
    """`autoresearch report --serve` in a process of its own."""

    def __init__(self, bench: Any, *words: str) -> None:
        argv = [sys.executable, "-m", "autoresearch", "report", "--serve", "--json", *words]
        self.process = subprocess.Popen(
            argv, cwd=bench.repo, env=bench.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.told = json.loads(line)
        self.url = str(self.told["url"])

    def curl(self, path: str = "", *, base: str = "") -> tuple[int, bytes]:
        """Status and body of a path behind the printed address, or of `base`."""
        argv = ["curl", "-s", "--noproxy", "*", "-w", "\n%{http_code}", (base or self.url) + path]
        body, _, status = subprocess.run(argv, capture_output=True, check=True).stdout.rpartition(b"\n")
        return int(status), body

    def data(self, path: str = "data.json") -> dict[str, Any]:
        status, body = self.curl(path)
        assert status == 200, body
        return dict(json.loads(body))

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        assert out == ""
        return self.process.returncode, err


@pytest.fixture
def serving(camp: Any) -> Iterator[Any]:
    """Start servers that end with the test."""
    made: list[Serving] = []

    def start(*words: str) -> Serving:
        made.append(Serving(camp.bench, *words))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.mark.system
def test_a_campaign_that_runs_is_shown_as_it_goes_on(camp: Any, serving: Any) -> None:
    """A wrong token gets 403 and nothing; Ctrl-C ends it; nothing is written; the end and removed records are shown."""
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    camp.start(**FAST)
    camp.until(lambda: camp.live("baseline"))
    server = serving("one")
    wrong = server.url.replace(server.url.split("/")[3], "0" * 32)
    assert server.curl("data.json", base=wrong) == (403, b"")
    status, page = server.curl()
    assert status == 200 and b'"live":true' in page and b"Content-Security-Policy" in page
    assert not any(idea["value"] for idea in server.data()["ideas"])
    camp.go.touch()
    camp.over()
    until(lambda: server.data()["phase"] == "ended")
    data, journal = server.data(), camp.place.events.stat().st_mtime
    assert int(journal) <= data["changed"] <= data["read"] and server.data()["changed"] == data["changed"]
    assert len([idea for idea in server.data()["ideas"] if idea["value"] is not None]) == 3
    shutil.rmtree(camp.place.path)
    until(lambda: "the records cannot be read now" in str(server.data()["remarks"]))
    assert len(server.data()["ideas"]) == 3  # as they were
    assert server.end() == (0, "ended; the address is no longer valid\n")


@pytest.mark.system
def test_refusals(camp: Any, serving: Any) -> None:
    bench, port = camp.bench, free_port()
    bench.ask("report", "--serve", check=4)  # there is no campaign yet
    camp.start(**FAST)
    camp.over()
    server = serving("--port", str(port))
    assert server.told["port"] == port and server.told["campaign"] == "one"
    assert server.told["ssh"].startswith(f"ssh -N -L {port}:127.0.0.1:{port} ")
    assert server.curl("c/nobody/")[0] == 404
    error = bench.ask("report", "--serve", "--port", port, check=5)["error"]
    assert error["code"] == "port_taken"
    assert bench.ask("report", "--port", 8000, check=2)["error"]["fix"] == "autoresearch report --serve --port 8000"
    bench.ask("report", "--serve", "--port", 65536, check=2)
    assert bench.ask("report", "nobody", "--serve", check=4)["error"]["code"] == "not_found"
    assert server.end(signal.SIGTERM)[0] == 0


@pytest.mark.real
# `make tools` installs Chromium where that needs no question; elsewhere the summary of `make test-real` names the skip
@pytest.mark.skipif(not chromium(), reason="no Chromium on this machine: make tools")
def test_a_real_browser_sees_a_new_row_arrive(camp: Any, serving: Any, tmp_path: Path) -> None:
    """A row comes without a reload; the server's end is said."""
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    camp.start(**FAST)
    camp.until(lambda: camp.live("baseline"))
    server = serving()
    with browser(tmp_path / "profile") as page:

        def text(selector: str) -> str:
            return str(page.js(f"document.querySelector('{selector}')?.innerText ?? ''"))

        def rows() -> int:
            return int(page.js("document.querySelectorAll('#rows tr').length"))

        page._call("Page.navigate", url=server.url)
        until(lambda: "Live: the records last changed at" in text("#notice") and text("#outcome"))
        page.js("window.same = true")
        before = rows()
        camp.go.touch()
        camp.over()
        until(lambda: rows() == 3)
        assert before < 3 and page.js("window.same") is True
        until(lambda: page.js("document.querySelectorAll('#progress-plot .point').length"))
        assert page.console == []
        assert {url.split("/")[2] for url in page.requests} == {server.url.split("/")[2]}
        assert server.end()[0] == 0
        until(lambda: "The server is gone" in text("#notice"))
