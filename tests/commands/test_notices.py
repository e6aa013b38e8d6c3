"""A lone run's end is told to whom `notify:` names: once, by whoever records it, and never at the run's expense."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hook import TOKEN

pytestmark = pytest.mark.system


def settings(bench: Any, *entries: object, **keys: object) -> None:
    """An autoresearch.yaml of the bench's own; JSON is YAML."""
    (bench.repo / "autoresearch.yaml").write_text(json.dumps({"notify": list(entries), **keys}))


def senders(bench: Any) -> list[Any]:
    return [process for process in bench.carriers() if "apprise.cli" in process.command]


@pytest.fixture(autouse=True)
def no_proxy(bench: Any) -> Iterator[None]:
    bench.env["NO_PROXY"] = "127.0.0.1"
    yield


def test_the_end_of_a_run_is_told_once_with_its_number(bench: Any, hook: Any) -> None:
    settings(bench, hook.url)
    payload = bench.ask("run", bench.blueprint("ok"), "--detach")
    bench.until(lambda: hook.posts)
    (post,) = hook.posts
    assert post["title"] == "try-ok: finished by itself; verdict keep"
    first, number, following, where = post["message"].splitlines()
    assert first.startswith(f"{payload['run']}: finished by itself after ") and first.endswith(", return code 0")
    assert number == "task_pass_rate@1 = 0.5 at step 2, best 0.5 (one run: its noise is not known)"
    assert following == f"next: autoresearch ledger show {payload['run']}"
    assert where == f"on {os.uname().nodename}: {payload['run_dir']}"
    bench.ask("wait", payload["run"])  # records nothing twice
    bench.ask("status", payload["run"])
    assert len(hook.posts) == 1


def test_a_run_that_crashed_says_why_and_what_to_type(bench: Any, hook: Any) -> None:
    settings(bench, hook.url)
    payload = bench.ask("run", bench.blueprint("oom"), check=10)
    bench.until(lambda: hook.posts)
    (post,) = hook.posts
    assert post["title"] == "try-oom: crashed; verdict crash"
    assert "CUDA out of memory" in post["message"] and f"next: autoresearch explain {payload['run']}" in post["message"]


@pytest.mark.parametrize("point", ["collect.flag_written", "collect.announced", "collect.collected"])
def test_a_collector_that_was_killed_is_made_up_for_once(bench: Any, hook: Any, point: str) -> None:
    settings(bench, hook.url)
    payload = bench.ask("run", bench.blueprint("ok"), "--detach", AUTORESEARCH_FAILPOINT=f"{point}:kill")
    bench.until(lambda: Path(payload["run_dir"], "collect.log").exists() and not bench.carriers())
    bench.until(lambda: not senders(bench))
    assert len(hook.posts) == (0 if point == "collect.flag_written" else 1)
    assert bench.ask("wait", payload["run"])["state"] == "ended"
    bench.until(lambda: not senders(bench))
    assert len(hook.posts) == 1


def test_a_hook_that_does_not_answer_delays_nothing(bench: Any) -> None:
    """192.0.2.0/24 is nobody's (RFC 5737). The run ends, is recorded and its code is that of any other."""
    settings(bench, "json://192.0.2.1/x", "json://no-such-host.invalid/x")
    done = bench.ask("run", bench.blueprint("ok"))
    assert done["verdict"] == "keep" and done["elapsed_s"] < 60
    for process in bench.until(lambda: senders(bench)):
        process.end()


def test_bad_entries_are_said_at_the_start_and_refuse_nothing(bench: Any) -> None:
    settings(bench, "hello", {"command": "true"})
    code, _, err = bench.here("run", bench.blueprint("ok"))
    assert code == 0
    assert "notify: entry 1 is neither an Apprise URL nor the path of an Apprise configuration; no notice" in err
    assert "notify: entry 2 is neither" in err


def test_doctor_sends_a_test_to_each_and_says_which_worked(bench: Any, hook: Any) -> None:
    settings(bench, hook.url)
    assert bench.ask("doctor")["notify"] == [{"to": "json://***"}] == bench.ask("config", "show")["notify"]
    assert hook.posts == []
    assert bench.ask("doctor", "--notify")["notify"] == [{"to": "json://***", "sent": True, "error": None}]
    assert len(hook.posts) == 1 and hook.titles[0].startswith("autoresearch: a test from ")
    settings(bench, hook.url, "slack://abc")
    code, out, _ = bench.here("doctor", "--notify")
    assert code == 6
    assert "slack://***: An invalid Slack (second) Token" in out
    assert "json://***: a test was delivered" in out and TOKEN not in out
    (bench.repo / "autoresearch.yaml").unlink()
    code, _, err = bench.here("doctor", "--notify")
    assert code == 0 and "no test was sent: `notify:` of autoresearch.yaml is empty" in err


@pytest.mark.real
def test_a_disk_that_is_full_at_the_end_is_told_though_no_record_can_be_written(
    bench: Any, hook: Any, disk: Any
) -> None:
    small = disk(bench.root / "small", size="2m")
    settings(bench, hook.url)
    blueprint = bench.blueprint("long", result_dir=str(small / "results"))
    payload = bench.ask("run", blueprint, "--detach")
    bench.event(payload["run_dir"], "first_step")
    for folder in (small,):
        disk.fill(folder)
    records = Path(payload["run_dir"])
    assert records.exists()
    os.kill(bench.runner(payload["run_dir"])["trainer_pid"], signal.SIGKILL)
    bench.until(lambda: hook.posts)
    assert payload["run"] in hook.posts[0]["message"]
    (small / "rest").unlink()
    bench.ask("wait", payload["run"])
    bench.until(lambda: not senders(bench))
