"""The process that sends: to a real hook by Apprise, to a command; again, once, never, and what is recorded of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.notifiers import deliver, sending
from autoresearch.notifiers.notice import Notice, NoticeKind, Recipients, parse_recipients
from autoresearch.notifiers.sending import hand_over, problems_of, try_each
from tests.hook import TOKEN
from tests.plugin_dirs import distribution

pytestmark = pytest.mark.system

NOTICE = Notice(NoticeKind.PAUSE, "pause:1", 'one: <b>"paused"</b>', ("#7 lr=4.4e-3", "مرحبا *x*"))


def to(*entries: object) -> Recipients:
    found = parse_recipients(list(entries), "test", os.environ)
    assert not found.problems
    return found


def lines_of(folder: Path) -> list[dict[str, Any]]:
    path = folder / sending.NAME
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def send(folder: Path, recipients: Recipients, notice: Notice = NOTICE) -> list[float]:
    """Send in this process; how long it would have slept."""
    slept: list[float] = []
    sending.send(sending.Outgoing(folder, notice, recipients.each), sleep=slept.append)
    return slept


def test_a_hook_gets_it_as_it_was_written(tmp_path: Path, hook: Any) -> None:
    assert send(tmp_path, to(hook.url)) == []
    (post,) = hook.posts
    assert (post["title"], post["message"]) == (NOTICE.title, "#7 lr=4.4e-3\nمرحبا *x*")
    send(tmp_path, to(hook.url))  # who sends again finds what was sent
    assert hook.posts == [post]
    (line,) = lines_of(tmp_path)
    assert (line["do"], line["notice"], line["to"], line["try"]) == (
        "sent", "pause:1", f"json://127.0.0.1:{hook.port}/***", 1,
    )  # fmt: skip
    assert TOKEN not in (tmp_path / sending.NAME).read_text()


def test_a_command_gets_it_on_stdin_and_in_variables(tmp_path: Path) -> None:
    variables = "$AUTORESEARCH_EVENT|$AUTORESEARCH_TITLE|$AUTORESEARCH_MESSAGE"
    send(tmp_path, to({"command": f'cat > {tmp_path}/in; printf %s "{variables}" > {tmp_path}/env'}))
    assert (tmp_path / "in").read_text() == f"{NOTICE.title}\n\n{NOTICE.body}\n"
    assert (tmp_path / "env").read_text() == f"pause|{NOTICE.title}|{NOTICE.body}"


def test_what_fails_twice_arrives_once_and_the_others_do_not_wait_for_it(tmp_path: Path, hook: Any) -> None:
    hook.answers += [500, 503]
    ok = f"echo x >> {tmp_path}/count"
    assert send(tmp_path, to(hook.url, {"command": ok})) == list(sending.WAITS_S[:2])
    assert len(hook.posts) == 1 and (tmp_path / "count").read_text() == "x\n"
    assert [(line["number"], line["do"], line["try"]) for line in lines_of(tmp_path)] == [
        (1, "failed", 1), (2, "sent", 1), (1, "failed", 2), (1, "sent", 3),
    ]  # fmt: skip
    assert "500" in lines_of(tmp_path)[0]["reason"]


def test_without_a_network_it_gives_up_after_an_hour(tmp_path: Path, hook: Any, monkeypatch: Any) -> None:
    """And at once, and never again, on what can never be sent."""
    assert 3000 < sum(sending.WAITS_S) < 4000
    gone = to(hook.url, {"command": f"echo no {TOKEN}; exit 7"}, "nosuch://a-t0ken-0815")
    hook.close()
    waits = (1.0, 5.0)  # of seven
    sending.send(sending.Outgoing(tmp_path, NOTICE, gone.each), sleep=lambda _: None, waits=waits)
    lines = lines_of(tmp_path)
    assert [(line["do"], line["try"]) for line in lines[-2:]] == [("gave_up", 3)] * 2
    assert "onnection error" in lines[-2]["reason"] and lines[-1]["reason"] == f"it ended with 7: no {TOKEN}"
    assert (lines[2]["do"], lines[2]["to"]) == ("gave_up", "nosuch://***")
    assert "nparseable" in lines[2]["reason"] and "0815" not in lines[2]["reason"]
    assert send(tmp_path, gone) == [] and len(lines_of(tmp_path)) == 2 * 3 + 1
    hook.close = lambda: None


def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "COMMAND_S", 0.5)
    (one,) = to({"command": "sleep 600 & sleep 600"}).each
    with pytest.raises(deliver.NotDelivered, match="took more than"):
        deliver.deliver(one, NOTICE)


def test_killed_between_the_attempt_and_its_line_it_comes_twice_and_never_not_at_all(
    tmp_path: Path, hook: Any, eventually: Callable[..., Any]
) -> None:
    for point, posts in (("notify.attempted:kill", 1), ("", 2)):
        process = hand_over(tmp_path, NOTICE, to(hook.url), {**os.environ, "AUTORESEARCH_FAILPOINT": point})
        assert process is not None
        assert process.wait() == (-signal.SIGKILL if point else 0)
        assert len(hook.posts) == posts
    assert [line["do"] for line in lines_of(tmp_path)] == ["sent"]


def test_two_at_a_time_send_it_once(tmp_path: Path, hook: Any) -> None:
    both = [hand_over(tmp_path, NOTICE, to(hook.url), os.environ) for _ in range(2)]
    assert [process.wait() for process in both if process] == [0, 0]
    assert len(hook.posts) == 1


def test_it_outlives_whoever_started_it(tmp_path: Path, hook: Any, eventually: Callable[..., Any]) -> None:
    """The starter is killed with its whole process group, as a closed terminal does, right after handing over."""
    text = (
        "import os, signal; from pathlib import Path\n"
        "from autoresearch.notifiers.sending import hand_over\n"
        "from autoresearch.notifiers.notice import Notice, NoticeKind\n"
        "from autoresearch.notifiers.notice import parse_recipients\n"
        f"to = parse_recipients({hook.url!r}, '', {{}})\n"
        f"hand_over(Path({str(tmp_path)!r}), Notice(NoticeKind.PAUSE, 'k', 'on its own', ('x',)), to, os.environ)\n"
        "os.killpg(0, signal.SIGKILL)\n"
    )
    environ = {**os.environ, "AUTORESEARCH_RUN_ID": "a-run"}
    process = subprocess.Popen([sys.executable, "-c", text], env=environ, start_new_session=True)
    assert process.wait() == -signal.SIGKILL
    eventually(lambda: [line["do"] for line in lines_of(tmp_path)] == ["sent"])
    assert hook.titles == ["on its own"]


def test_only_those_who_want_its_kind_and_a_bad_entry_is_recorded(tmp_path: Path, hook: Any) -> None:
    found = parse_recipients([{"url": hook.url, "events": "end"}, "slack://${NOBODY}"], "file", {})
    assert hand_over(tmp_path, NOTICE, found, os.environ) is None
    (line,) = lines_of(tmp_path)
    assert line["do"] == "gave_up"
    assert line["reason"] == "file: notify: entry 2: slack://***: the variable NOBODY is not set"


@pytest.mark.real
def test_on_a_full_disk_it_is_sent_though_nothing_can_be_recorded(tmp_path: Path, hook: Any, disk: Any) -> None:
    full = disk(tmp_path / "full")
    disk.fill(full)
    process = hand_over(full, NOTICE, to(hook.url), os.environ)
    assert process is not None and process.wait() == 0
    assert len(hook.posts) == 1 and lines_of(full) == []


def test_what_is_wrong_with_a_url_is_said_without_sending(hook: Any) -> None:
    found = parse_recipients([hook.url, "slack://abc", "nosuch://x", {"command": "false"}, "x"], "file", {})
    problems = problems_of(found)
    assert problems[0].startswith("file: notify: entry 5: it is no URL")
    assert problems[1].startswith("notify: slack://***: An invalid Slack (second) Token")
    assert problems[2].startswith("notify: nosuch://***: ") and len(problems) == 3
    assert hook.posts == []


def test_a_test_to_each_says_which_worked(hook: Any) -> None:
    reasons = try_each(to(hook.url, {"command": "exit 3"}))
    assert reasons == ["", "it ended with 3"]
    assert len(hook.posts) == 1 and "doctor --notify" in hook.posts[0]["message"]


def test_a_plug_in_adds_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One function in a distribution of its own; what it raises is the reason."""
    text = (
        "def send(url, title, body):\n"
        "    if url.endswith('broken'): raise RuntimeError('the pager is off')\n"
        f"    open({str(tmp_path / 'got')!r}, 'w').write(f'{{url}}|{{title}}|{{body}}')\n"
    )
    distribution(tmp_path / "site", "pager", {"notifiers": {"pager": "pager_plugin:send"}}, pager_plugin=text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', os.getcwd())}")
    good, broken = to("pager://desk/4", "pager://broken").each
    assert sending.attempt(good, NOTICE) == ("", False)
    assert (tmp_path / "got").read_text() == f"pager://desk/4|{NOTICE.title}|{NOTICE.body}"
    assert sending.attempt(broken, NOTICE) == ("RuntimeError: the pager is off", False)
