"""`report --serve`: a campaign's page while it runs, from a real server, over ssh, and in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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

    def curl(self, path: str = "", *, base: str = "", words: tuple[str, ...] = ()) -> tuple[int, bytes]:
        """Status and body of a path behind the printed address, or of `base`."""
        argv = ["curl", "-s", "--noproxy", "*", "-w", "\n%{http_code}", *words, (base or self.url) + path]
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
    assert server.curl(base=wrong) == (403, b"")
    assert server.curl("data.json", words=("-H", "Host: evil.example")) == (403, b"")
    assert server.curl("data.json", words=("-X", "POST")) == (405, b"")
    status, page = server.curl()
    assert status == 200 and b'"live":true' in page and b"Content-Security-Policy" in page
    assert not any(idea["value"] for idea in server.data()["ideas"])
    index = server.url.rpartition("c/")[0]
    rows = json.loads(server.curl("data.json", base=index)[1])
    assert [row["name"] for row in rows["campaigns"]] == ["one"] and rows["campaigns"][0]["state"] == "running"
    assert [run["state"] for run in rows["runs"]] == ["running"]
    camp.go.touch()
    camp.over()
    until(lambda: server.data()["phase"] == "ended", 60)
    assert len([idea for idea in server.data()["ideas"] if idea["value"] is not None]) == 3
    shutil.rmtree(camp.place.path)
    until(lambda: "the records cannot be read now" in str(server.data()["remarks"]), 60)
    assert len(server.data()["ideas"]) == 3  # as they were
    assert server.end() == (0, "ended; the address is no longer valid\n")


@pytest.mark.system
def test_all_of_a_project_and_refusals(camp: Any, serving: Any) -> None:
    bench, port = camp.bench, free_port()
    run = bench.ask("run", bench.repo / "exp.md")["run"]
    server = serving("--port", str(port))
    assert server.told["port"] == port and server.told["campaign"] is None
    assert server.told["ssh"].startswith(f"ssh -N -L {port}:127.0.0.1:{port} ")
    assert [one["run"] for one in server.data()["runs"]] == [run] and server.data()["campaigns"] == []
    status, page = server.curl()
    assert status == 200 and str(bench.repo).encode() in page
    assert server.curl("c/nobody/")[0] == 404
    error = bench.ask("report", "--serve", "--port", port, check=5)["error"]
    assert error["code"] == "port_taken"
    assert bench.ask("report", "--port", 8000, check=2)["error"]["fix"] == "autoresearch report --serve --port 8000"
    bench.ask("report", "--serve", "--port", 65536, check=2)
    assert bench.ask("report", "nobody", "--serve", check=4)["error"]["code"] == "not_found"
    camp.start(**FAST)  # a campaign that begins later
    camp.over()
    until(lambda: [one["state"] for one in server.data()["campaigns"]] == ["ended"], 60)
    key = server.data()["campaigns"][0]["key"]
    assert server.data(f"c/{key}/data.json")["name"] == "one"
    assert server.end(signal.SIGTERM)[0] == 0


@pytest.mark.real
def test_over_a_real_ssh_tunnel(camp: Any, serving: Any, sshd: Any) -> None:
    server, here = serving(), free_port()
    there = server.told["port"]
    words = ["ssh", "-F", str(sshd.config), "-N", "-L", f"{here}:127.0.0.1:{there}", "far"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as tunnel:
        base = server.url.replace(f":{there}/", f":{here}/")
        with contextlib.suppress(subprocess.CalledProcessError):
            server.curl(base=base)
        until(lambda: _status(server, base) == 200, 60)
        assert server.curl("data.json", base=base.replace("127.0.0.1", "localhost"))[0] == 200
        wrong = base.replace(server.url.split("/")[3], "1" * 32)
        assert server.curl(base=wrong) == (403, b"")
        tunnel.terminate()


def _status(server: Serving, base: str) -> int:
    try:
        return server.curl(base=base)[0]
    except subprocess.CalledProcessError:  # the tunnel is not there yet
        return 0


class Browser:
    """A headless Chromium that is told what to do over a pipe (its DevTools protocol)."""

    def __init__(self, program: str, folder: Path) -> None:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        words = [program, *flags, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._log = (folder / "browser.log").open("wb")
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "browser", *words],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._session, self._rest = 0, "", b""
        self.said: list[str] = []  # errors, and what was written to the console
        (page,) = (one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        found = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                self.said.append(json.dumps(answer["params"]))

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is in the page now."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._from, 1 << 20)
            assert part, "the browser is gone"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        for fd in (self._to, self._from):
            os.close(fd)
        self._log.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on this machine")
    made = Browser(program, tmp_path)
    yield made
    made.end()


@pytest.mark.real
def test_a_real_browser_sees_a_new_row_arrive(camp: Any, serving: Any, browser: Browser) -> None:
    """The index, its link, the campaign's page; a row comes without a reload; the server's end is said."""
    camp.recipe(mode="hold")
    camp.bench.git("commit", "-qam", "hold")
    camp.start(**FAST)
    camp.until(lambda: camp.live("baseline"))
    server = serving()
    browser.call("Page.navigate", url=server.url)
    until(lambda: browser.value("document.querySelectorAll('#campaigns tr').length") == 1, 60)
    assert browser.value("document.querySelector('#runs').innerText").count("running") == 1
    browser.value("document.querySelector('#campaigns a').click()")
    until(lambda: "Live: as of" in str(browser.value("document.querySelector('#notice').innerText")), 60)
    browser.value("window.same = true")
    before = browser.value("document.querySelectorAll('#rows tr').length")
    camp.go.touch()
    camp.over()
    until(lambda: browser.value("document.querySelectorAll('#rows tr').length") == 3, 60)
    assert before < 3 and browser.value("window.same") is True
    until(lambda: browser.value("document.querySelectorAll('#progress-plot .point').length") > 0, 60)
    assert browser.said == []
    assert server.end()[0] == 0
    until(lambda: "The server is gone" in str(browser.value("document.querySelector('#notice').innerText")), 60)


@pytest.mark.system
def test_idle_polls_cost_next_to_nothing(camp: Any, serving: Any) -> None:
    """A poll of a campaign at which nothing happens takes no more than a few milliseconds of the server's time."""
    camp.start(**FAST)
    camp.over()
    server = serving("one")
    server.data()
    stat = Path(f"/proc/{server.process.pid}/stat")

    def used() -> float:
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, polls = used(), 100
    urls = [f"{server.url}data.json"] * polls
    subprocess.run(["curl", "-s", "--noproxy", "*", "-o", "/dev/null", *urls], check=True, stdout=subprocess.DEVNULL)
    assert (used() - before) / polls < 0.01
