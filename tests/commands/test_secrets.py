"""Secrets of every kind through a real run: no record, page, commit message or output of a command shows one."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.secret_kinds import LEAKING, UNSEEN
from tests.secret_samples import SECRETS

pytestmark = pytest.mark.system

KINDS = SECRETS | {kind: sample for kind, sample in UNSEEN.items() if kind not in LEAKING}
NAMES = list(KINDS)
PARTS = [NAMES[:20], NAMES[-20:]]  # through every output; that each kind is masked is tests/records/test_secrets.py's
BARE = "env" + "Val77190q"  # printed with nothing around it that says what it is
GIVEN = "out" + "Side55102z"
TRAINER = """
import os, sys
texts = open("texts.txt").read()  # the user's, ignored
step(1)
print(texts, flush=True)
print("the server said", os.environ["SERVICE_TOKEN"], os.environ["MY_PASSWORD"], flush=True)
validation(1, 0.5)
raise RuntimeError(os.environ["MY_PASSWORD"] + " " + texts.replace("\\n", " "))
"""


def leaks(where: str, text: str, secrets: list[str]) -> list[str]:
    return [f"{where}: {secret}" for secret in secrets if secret in text]


def written(bench: Any, own: set[Path]) -> Iterator[tuple[str, str]]:
    """Every file that was written below the root of the bench, and every object and message of the repository."""
    for path in bench.root.rglob("*"):
        ours = path not in own and path.name != "run.log" and ".git" not in path.parts
        if ours and path.is_file() and not path.is_symlink():
            yield str(path), path.read_bytes().decode("utf-8", "replace")
    yield "git log", bench.git("log", "-p", "--all")
    objects = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=bench.repo, capture_output=True, check=True
    )
    yield "git objects", objects.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize("kinds", PARTS, ids=[f"{part[0]} to {part[-1]}" for part in PARTS])
def test_no_secret_is_written_or_shown(bench: Any, kinds: list[str]) -> None:
    texts = "\n".join(KINDS[kind][0] for kind in kinds)
    secrets = [*(KINDS[kind][1] for kind in kinds), BARE, GIVEN]
    (bench.repo / ".gitignore").write_text("texts.txt\n")
    (bench.repo / "texts.txt").write_text(texts)
    bench.git("add", ".gitignore")
    bench.git("commit", "-qm", "ignore")
    path = bench.script(
        TRAINER,
        purpose=f"See what leaks of {texts.splitlines()[0]}.",
        command=f"python odd.py {shlex.quote(texts)} --service-token {GIVEN}".replace("odd.py", "leak.py"),
        title="Try leak",
        notes=f"- env: SERVICE_TOKEN={GIVEN}\n- prepare: echo {shlex.quote(texts.splitlines()[0])}\n\nNB:\n{texts}",
    )
    own = {path, bench.repo / "texts.txt"}
    outside = {"MY_PASSWORD": BARE}
    shown = []
    check, run = ("blueprint", "check", path), ("run", path)
    for words in ((*check, "--json"), check, (*run, "--dry-run"), run):
        _, out, err = bench.here(*words, **outside)
        shown.append((" ".join(map(str, words)), out + err))
    assert "secret_in_blueprint" in shown[0][1]
    payload = bench.ask("status", "last", check=None, **outside)
    assert (payload["ending"], payload["verdict"]) == ("crashed", "crash"), payload
    name = payload["run"]
    bench.until(lambda: not bench.carriers())
    commands = (
        ("status", name), ("explain", name), ("logs", name), ("logs", name, "--grep", "."), ("logs", name, "--events"),
        ("metrics", name), ("ledger", "show", payload["ledger"]), ("wait", name), ("compare", name, name),
        ("repro", name), ("collect", payload["run_dir"]), ("campaign", path, "--dry-run", "--count", "1"),
    )  # fmt: skip
    for words in commands:
        for form in ((), ("--json",)):
            _, out, err = bench.here(*words, *form, **outside)
            assert out + err, words
            shown.append((" ".join(map(str, (*words, *form))), out + err))
    found = [leak for where, text in (*shown, *written(bench, own)) for leak in leaks(where, text, secrets)]
    assert not found, "\n".join(found)
    assert any(secret in Path(payload["log_path"]).read_text() for secret in secrets)  # the trainer's own words stay
    spec = Path(payload["run_dir"]) / "spec.json"
    assert "***" in spec.read_text() and json.loads(spec.read_text())["signals"]


def test_the_spec_is_for_nobody_else_while_it_runs(bench: Any) -> None:
    path = bench.blueprint("long", command=f"python trainer.py long --token {GIVEN}")
    started = bench.ask("run", path, "--detach")
    spec = Path(started["run_dir"]) / "spec.json"
    assert spec.stat().st_mode & 0o777 == 0o600
    assert GIVEN in spec.read_text()
    bench.ask("stop", started["run"], "--reason", "enough")
    bench.until(lambda: GIVEN not in spec.read_text())
    assert spec.stat().st_mode & 0o777 == 0o644
    bench.settled(started, "stopped")


def test_ordinary_text_is_not_masked(bench: Any) -> None:
    command = "python trainer.py ok data.prompt_key=prompt --max_tokens 512 --tokenizer Qwen/Qwen2.5-0.5B"
    payload = bench.ask("run", bench.blueprint("ok", command=command))
    for path in (Path(payload["run_dir"]), Path(payload["result_dir"])):
        for file in path.iterdir():
            assert not file.is_file() or "***" not in file.read_text(), file
    assert payload["commit"] in Path(payload["ledger"]).read_text()
    assert "***" not in bench.git("log", "-1", "-p", payload["branch"])


def test_a_campaign_with_a_secret_in_its_command_is_refused(bench: Any) -> None:
    path = bench.blueprint("ok", command=f"python trainer.py ok --token {GIVEN}")
    (bench.repo / "ideas").mkdir()
    refused = bench.ask("campaign", path, "--queue", "ideas", "--count", "1", "--yes", check=None)
    assert refused["ok"] is False and refused["exit_code"] == 3
    assert "requires_env" in json.dumps(refused) and GIVEN not in json.dumps(refused)
    assert not (bench.repo / "reports").exists()


@pytest.mark.parametrize("before", [210, 270, 280, 290])
def test_a_secret_that_a_cut_would_split_is_not_shown(bench: Any, before: int) -> None:
    text, half = SECRETS["databricks"]
    log = bench.root / "long.log"
    log.write_text(f"Traceback (most recent call last):\n  File 'a.py', line 1\nValueError:{'x' * before}/{text}\n")
    for words in (("explain", log), ("explain", log, "--json"), ("explain", log, "--digest")):
        _, out, err = bench.here(*words)
        assert "ValueError:xxx" in out and half[:8] not in out + err, words
