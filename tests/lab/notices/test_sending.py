"""Notices through Apprise's own process: to a real hook; again, once, never; whom `notify:` names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab.notices import sending
from autoresearch.lab.notices.sending import Notice, NoticeKind, Recipients, hand_over, recipients_of
from tests.hook import TOKEN

pytestmark = pytest.mark.system

NOTICE = Notice(NoticeKind.PAUSE, "pause:1", '-one: <b>"paused"</b>', ("#7 lr=4.4e-3", "مرحبا *x*"))


def send(folder: Path, recipients: Recipients, notice: Notice = NOTICE) -> int | None:
    """Hand it over and wait for Apprise; its exit code, None if nothing was started."""
    before = list(sending._started)
    hand_over(folder, notice, recipients)
    new = [process for process in sending._started if process not in before]
    return new[0].wait() if new else None


def test_a_hook_gets_it_once_as_it_was_written(tmp_path: Path, hook: Any) -> None:
    assert send(tmp_path, Recipients((hook.url,))) == 0
    (post,) = hook.posts
    assert (post["title"], post["message"]) == (NOTICE.title, "#7 lr=4.4e-3\nمرحبا *x*")
    assert send(tmp_path, Recipients((hook.url,))) is None, "who hands it over again finds that it was"
    assert hook.posts == [post]


def test_no_token_is_on_a_command_line(tmp_path: Path, hook: Any) -> None:
    command, config = sending._apprise(NOTICE, (hook.url,), "pause:1")
    assert TOKEN not in " ".join(command) and TOKEN.encode() in config


def test_what_fails_is_tried_again_and_said_to_the_owner_only(
    tmp_path: Path, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WAIT_S", 0.1)
    hook.answers += [500, 503]
    assert send(tmp_path, Recipients((hook.url,))) == 0
    assert len(hook.posts) == 1
    log = tmp_path / "notice-pause:1.log"
    assert "error=500" in log.read_text() and TOKEN not in log.read_text() and log.stat().st_mode & 0o077 == 0


def test_of_a_configuration_those_who_are_tagged_with_the_kind(tmp_path: Path, hook: Any) -> None:
    file = tmp_path / "apprise.yaml"
    file.write_text(f"urls: [{{'{hook.url}': [{{tag: 'end, pause'}}]}}, {{'{hook.url}': [{{tag: run_end}}]}}]")
    found = recipients_of(["apprise.yaml", hook.url], tmp_path / "autoresearch.yaml")
    assert found == Recipients((str(file), hook.url))
    assert send(tmp_path, found) == 0 and len(hook.posts) == 2


def test_it_outlives_whoever_started_it(tmp_path: Path, hook: Any, eventually: Callable[..., Any]) -> None:
    """The starter is killed with its whole process group, as a closed terminal does, right after handing over."""
    text = (
        "import os, signal; from pathlib import Path\n"
        "from autoresearch.lab.notices.sending import Notice, NoticeKind, Recipients, hand_over\n"
        f"notice, to = Notice(NoticeKind.PAUSE, 'k', 'on its own', ('x',)), Recipients(({hook.url!r},))\n"
        f"hand_over(Path({str(tmp_path)!r}), notice, to)\n"
        "os.killpg(0, signal.SIGKILL)\n"
    )
    environ = {**os.environ, "AUTORESEARCH_RUN_ID": "a-run"}
    process = subprocess.Popen([sys.executable, "-c", text], env=environ, start_new_session=True)
    assert process.wait() == -signal.SIGKILL
    eventually(lambda: hook.titles == ["on its own"])


@pytest.mark.real
def test_on_a_full_disk_it_is_sent_all_the_same(tmp_path: Path, hook: Any, disk: Any) -> None:
    full = disk(tmp_path / "full")
    disk.fill(full)
    assert send(full, Recipients((hook.url,))) == 0 and len(hook.posts) == 1
    assert send(tmp_path / "removed", Recipients((hook.url,))) == 0 and len(hook.posts) == 2


@pytest.mark.parametrize(
    ("value", "shown", "problems"),
    [
        (None, (), 0),
        ("ntfy://mine", ("ntfy://***",), 0),
        (["slack://a/b/c", "none.yaml", 7, {"command": "x"}, "slack://${TOKEN}"], ("slack://***",), 4),
    ],
)
def test_what_names_nobody_is_a_problem_and_the_others_count(value: object, shown: Any, problems: int) -> None:
    found = recipients_of(value, Path("autoresearch.yaml"))
    assert found.shown == shown and len(found.problems) == problems
    assert all(one.startswith("autoresearch.yaml: notify: entry ") for one in found.problems)


def test_a_line_is_cut_and_secrets_are_masked() -> None:
    notice = Notice(NoticeKind.PAUSE, "k", "t", ("export OPENAI_API_KEY=sk-abcdefghij0123456789", "two " * 200))
    assert "0123456789" not in notice.body and [len(line) for line in notice.body.splitlines()][1] == 400
