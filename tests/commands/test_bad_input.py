"""Bad input and odd surroundings: one clear sentence, the right exit code, nothing made and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autoresearch import cli

REPO = Path(__file__).parents[2]
CODES = (REPO / "docs/json.md").read_text()


ALIVE = ("run.log", "events.jsonl", "experiment_log.md", "lock", "runner.json", "collect.log")  # what a run writes


def refused(bench: Any, code: int, *args: object, says: str, **env: str) -> dict[str, Any]:
    """Assert that a command is refused in one sentence, to programs and to people, and that nothing was touched."""
    before = bench.picture(*ALIVE)
    payload = bench.ask(*args, check=code, **env)
    assert {"schema", "command", "ok", "exit_code", "error", "next"} <= payload.keys()
    assert (payload["ok"], payload["exit_code"]) == (False, code)
    error = payload["error"]
    assert {"code", "message", "hint", "fix"} <= error.keys()
    assert says in " ".join([error["message"], *error.get("findings", ())]), error
    assert error["message"].isprintable() and 0 < len(error["message"]) < 500, error["message"]
    assert error["code"] not in ("", "internal")
    plain, out, err = bench.here(*args, **env)
    assert (plain, out) == (code, "")
    message = error["message"].replace(f"{bench.repo}/", "")  # people read paths from the working directory
    assert err.startswith("autoresearch: " + message[:40]) and "Traceback" not in err
    assert bench.picture(*ALIVE) == before
    return dict(error)


# ---------------------------------------------------------------------------- blueprints


def replaced(*pairs: tuple[str, str]) -> Callable[[str], str]:
    """A blueprint's text with passages replaced, each of which must be there."""

    def change(text: str) -> str:
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    return change


COMMAND = "python trainer.py ok"
BLUEPRINTS: dict[str, tuple[Callable[[str], str], str, str]] = {
    # one for each stage that refuses: (change, words of the message, the section whose line is named)
    "10 MB": (lambda text: text + "x" * 10_000_000, "MiB", ""),
    "no codebase": (replaced(("- dir: {codebase}", "- dir: /nowhere/at/all")), "/nowhere/at/all", "exp_codebase_dir"),
    "a broken recipe": (replaced(("- path: NA", "- path: broken.yaml")), "broken.yaml", "exp_yaml_path"),
    "a deadly recipe": (replaced(("- path: NA", "- path: deadly.yaml")), "deadly.yaml:2", ""),
    "pkill": (replaced((COMMAND, "pkill -f vllm; " + COMMAND)), "pkill", "exp_launch_command"),
    "a broken expression": (replaced(("metric: task_pass_rate@1", "metric: max(a")), "is not understood", ""),
}


@pytest.mark.system
@pytest.mark.parametrize("name", BLUEPRINTS)
def test_a_bad_blueprint_is_one_sentence(bench: Any, name: str) -> None:
    change, says, section = BLUEPRINTS[name]
    path = bench.blueprint("ok")
    (bench.repo / "broken.yaml").write_text("a: [1, 2\nb: 3\n")
    (bench.repo / "deadly.yaml").write_text("trainer:\n  execute_test: true\n")
    text = change(path.read_text().replace(f"- dir: {bench.repo}", "- dir: {codebase}"))
    path.write_text(text.replace("{codebase}", str(bench.repo)))
    error = refused(bench, 3, "run", path, says=says)
    if section:
        heading = text.split(f"## [{section}]")[0].count("\n") + 1
        lines = [int(n) for n in re.findall(r"exp\.md:(\d+)", " ".join([error["message"], *error.get("findings", ())]))]
        assert any(heading <= n <= heading + 6 for n in lines), (heading, error)
    code, out, _ = bench.here("blueprint", "check", path, "--json")
    checked = json.loads(out)
    assert code == 3 and checked["exit_code"] == 3 and checked["command"] == "blueprint check"
    assert not checked["ok"] and checked["error"]["message"] and checked["next"] == [] and not checked.get("valid")
    assert bench.here("run", path, "--dry-run")[0] == 3


@pytest.mark.system
def test_blueprints_that_are_no_files(bench: Any) -> None:
    near = bench.blueprint("ok", name="experiment.md")
    assert str(near) in refused(bench, 4, "run", bench.repo / "experimnet.md", says="experimnet.md")["hint"]
    refused(bench, 4, "run", bench.repo, says="is a directory")
    refused(bench, 4, "run", "/dev/null", says="not a regular file")
    refused(bench, 4, "run", "x" * 300 + ".md", says="too long")
    refused(bench, 4, "run", "new\nline.md", says="line.md")
    refused(bench, 4, "blueprint", "check", "gone.md", says="gone.md")
    refused(bench, 2, "run", says="neither a command nor a blueprint")


@pytest.mark.system
def test_check_tells_programs_everything(bench: Any) -> None:
    path = bench.blueprint("ok", notes="- prepare: please make tea\n")
    good = bench.ask("blueprint", "check", path)
    assert good["ok"] and good["valid"] and (good["exit_code"], good["limits"]["max_s"]) == (0, 600)
    assert {f["code"] for f in good["findings"]} == {"not_a_command", "console_alone"}
    path.write_text(path.read_text().replace(COMMAND, f"{COMMAND}; pkill x"))
    (kill,) = [f for f in bench.ask("blueprint", "check", path, check=3)["findings"] if f["code"] == "kills_by_name"]
    assert path.read_text().splitlines()[kill["line"] - 1].endswith("pkill x") and kill["severity"] == "error"


@pytest.mark.system
def test_blueprint_new_from_flags(bench: Any) -> None:
    flags = ("--purpose", "lr 1e-6 `a` $(touch pwned)", "--codebase", bench.repo, "--command", COMMAND)
    made = bench.ask("blueprint", "new", "sub/new.md", *flags, "--max-time", "90 minutes", "--set", "metric=m")
    path = bench.repo / "sub/new.md"
    assert made["path"] == str(path)
    checked = bench.ask("blueprint", "check", path)
    assert (checked["command_line"], checked["limits"]["max_s"]) == (COMMAND, 5400)
    assert "$(touch pwned)" in checked["purpose"] and not list(bench.root.rglob("pwned"))
    refused(bench, 5, "blueprint", "new", "sub/new.md", *flags, says="exists already")
    bench.ask("blueprint", "new", "sub/new.md", "--purpose", "other", "--command", "true", "--force")
    assert bench.ask("blueprint", "check", path)["purpose"] == "other"


# ------------------------------------------------------------------------ the repository


def identity_missing(bench: Any) -> None:
    (Path(bench.env["GIT_CONFIG_GLOBAL"])).write_text("[user]\n\tuseConfigOnly = true\n")


def detached(bench: Any) -> None:
    bench.git("checkout", "-q", "--detach")


def without_commit(bench: Any) -> None:
    bench.git("checkout", "-q", "--orphan", "fresh")
    bench.git("rm", "-rqf", "--cached", ".")


def locked_index(bench: Any) -> None:
    (bench.repo / ".git/index.lock").write_text("")


def dirty(bench: Any) -> None:
    for name in ("staged.py", "both.py", "gone.py"):
        (bench.repo / name).write_text("one\n")
    bench.git("add", "staged.py", "both.py", "gone.py")
    (bench.repo / "both.py").write_text("two\n")
    (bench.repo / "gone.py").unlink()
    (bench.repo / "untracked.py").write_text("three\n")


@pytest.mark.system
@pytest.mark.parametrize("state", [identity_missing, detached, without_commit, locked_index, dirty])
def test_a_run_in_an_odd_repository_leaves_the_checkout_alone(bench: Any, state: Callable[[Any], None]) -> None:
    blueprint = bench.blueprint("ok")
    state(bench)
    ours = (".git/objects", "reports", "results", ".git/info/exclude", ".git/refs/heads/autoresearch", ".git/logs")
    before = bench.picture(*ours)
    payload = bench.ask("run", blueprint)
    assert payload["ending"] == "finished" and payload["branch"]
    assert bench.picture(*ours) == before
    names = bench.git("ls-tree", "-r", "--name-only", payload["branch"]).splitlines()
    assert {"exp.md", "trainer.py"} <= set(names)
    if state is dirty:
        assert "gone.py" not in names and bench.git("show", f"{payload['branch']}:both.py") == "two"
    bench.settled(payload, "finished")


# --------------------------------------------------------------------------- state, names


@pytest.mark.system
def test_an_unusable_state_home(bench: Any) -> None:
    blueprint = bench.blueprint("ok")
    home = bench.root / "state-file"
    home.write_text("not a directory")
    for command in (("run", blueprint), ("status",), ("wait", "last"), ("ledger", "show")):
        error = refused(bench, 6, *command, says=str(home), XDG_STATE_HOME=str(home))
        assert error["code"] == "state_unusable" and "XDG_STATE_HOME" in error["hint"]
    assert not bench.git("branch", "--list", "autoresearch/*")
    assert bench.here("run", blueprint, "--dry-run", XDG_STATE_HOME=str(home))[0] in (0, 6)


EVIL = ("../x", "x" * 10_000, "a\nb", "", "last\0", "*", "-", "--", "/etc", "%s", "$(touch pwned)", "ünï")


@pytest.mark.system
@pytest.mark.parametrize("command", ["status", "wait", "logs", "stop", "attach", "note", "collect"])
def test_names_that_nothing_answers_to(bench: Any, command: str) -> None:
    more = {"stop": ["--reason", "r"], "note": ["text"], "wait": ["--for", "1s"]}.get(command, [])
    for name in EVIL:
        if name in ("", "--") and command == "status":
            continue  # every living run
        options, words = ([], more) if command == "note" else (more, [])
        code, out, _ = bench.here(command, "--json", *options, "--", name, *words)
        payload = json.loads(out)
        assert code == payload["exit_code"] == 4, (name, payload)
        assert len(payload["error"]["message"]) < 300 and payload["error"]["message"].isprintable()
    assert not list(bench.root.rglob("pwned"))


@pytest.mark.system
def test_the_words_of_the_command_line(bench: Any) -> None:
    assert "--no-such" in refused(bench, 2, "status", "--no-such", says="--no-such")["fix"] + "--no-such"
    refused(bench, 2, "frobnicate", says="frobnicate")
    refused(bench, 2, "blueprint", "frobnicate", says="frobnicate")
    refused(bench, 2, "logs", "--events", "--since", "soon", says="--since")
    blueprint = bench.blueprint("ok")
    refused(bench, 2, "run", blueprint, "--max-time", "-5s", says="-5s")
    refused(bench, 2, "run", blueprint, "--max-time", "soonish", says="soonish")
    refused(bench, 2, "run", blueprint, "--trainer", "nosuch", says="nosuch")
    refused(bench, 2, "run", blueprint, says="AUTORESEARCH_GRACE", AUTORESEARCH_GRACE="nonsense")
    refused(bench, 4, "run", blueprint, "--fix-of", "nobody", says="nobody")
    (bench.repo / "autoresearch.yaml").write_text("max_time: 3h\nmax_tmie: 4h\n")
    refused(bench, 2, "run", blueprint, says="max_tmie")
    (bench.repo / "autoresearch.yaml").write_text("max_time: [3h\n")
    refused(bench, 2, "run", blueprint, says="autoresearch.yaml")


# -------------------------------------------------------------------- questions about runs


@pytest.mark.system
def test_questions_about_a_run_that_is_over(bench: Any) -> None:
    payload = bench.ask("run", bench.blueprint("ok"))
    run = payload["run"]
    everything = bench.ask("logs", run, "--events")
    names = [e["event"] for e in everything["events"]]
    assert names.index("started") < names.index("first_step") < names.index("ended")
    half = everything["events"][2]["seq"]
    assert [e["seq"] for e in bench.ask("logs", run, "--events", "--since", half)["events"]] == [
        e["seq"] for e in everything["events"][3:]
    ]
    assert bench.ask("logs", run, "--events", "--since", everything["seq"])["events"] == []
    assert bench.ask("logs", run, "--events", "--tail", 1)["left_off"] == len(names) - 1

    refused(bench, 2, "logs", run, "--grep", "([", says="regular expression")
    assert bench.ask("logs", run, "--grep", "step:[12] - actor")["count"] == 2
    assert bench.ask("logs", run, "--grep", "nothing like it")["lines"] == []
    written = bench.ask("logs", run, "--out", bench.root / "copy.txt")
    assert written["lines"] == [] and "step:2" in (bench.root / "copy.txt").read_text()
    refused(bench, 6, "logs", run, "--out", bench.root / "no/such/place.txt", says="no/such/place.txt")
    assert "step:2" in bench.cli("logs", run, "-f").stdout

    refused(bench, 2, "metrics", payload["run_dir"], "--trainer", "verl", says="a run has its trainer")
    refused(bench, 2, "wait", run, "--for", "nonsense", says="nonsense")
    assert bench.ask("wait", run, "--for", "100s")["state"] == "ended"
    assert bench.ask("wait", run, "--exit-code", check=1)["state"] == "ended"

    noted = bench.ask("note", run, "took `care`\nof $(it)")
    assert "note: took `care` of $(it)" in Path(noted["journal"]).read_text()
    refused(bench, 2, "note", run, "  ", says="empty")

    assert bench.ask("attach", run)["attach"] in bench.here("attach", run)[1]
    late = bench.ask("stop", run, "--reason", "late")  # nothing to stop: its session is closed
    assert (late["ending"], late["closed"]) == ("finished", True)
    refused(bench, 4, "attach", run, says="no session")
    assert bench.ask("stop", run)["closed"] is False
    for name in (payload["session"], "try-ok", payload["result_dir"], "last", payload["run_dir"]):
        assert bench.ask("status", name)["run"] == run
    bench.settled(payload, "finished")
    _ledger(bench, payload)


def _ledger(bench: Any, payload: dict[str, Any]) -> None:
    def show(*args: str) -> str:
        code, out, err = bench.here("ledger", "show", payload["run"], *args)
        assert code == 0, err
        return str(out)

    (row,) = bench.ask("ledger", "show", payload["run"])["rows"]
    assert row["run_id"] == payload["run"] and row["metric_value"] == 0.5
    assert payload["run"] in show() and "1 row in" in show()
    assert bench.ask("ledger", "show", payload["ledger"])["count"] == 1
    refused(bench, 4, "ledger", "show", "gone.tsv", says="gone.tsv")
    refused(bench, 4, "ledger", "show", "nobody", says="nobody")


@pytest.mark.system
def test_waiting_returns_early_for_each_kind_of_news(bench: Any) -> None:
    """Each `wait` is given an hour and returns because something happened, not because the hour is over."""
    gate = bench.root / "gate"
    blueprint = bench.script(
        f"""
        import pathlib
        def gate(n):
            while not pathlib.Path({str(gate)!r} + str(n)).exists(): time.sleep(0.01)
        gate(1); step(1)
        gate(2); print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
        gate(3); validation(1, 0.25)
        """
    )
    payload = bench.ask("run", blueprint, "--detach")
    run, seq = payload["run"], 0
    refused(bench, 2, "stop", run, says="--reason")
    assert bench.ask("attach", run)["session"] == payload["session"]
    for n, event in ((1, "first_step"), (2, "error"), (3, "ended")):
        words = ("--for", "1h", "--since", seq, "--json")
        waiting = bench.spawn("wait", run, *words, stdout=subprocess.PIPE)
        if n == 1:
            assert bench.ask("wait", run, "--for", "0s", "--exit-code")["event"] == "tick"  # 0: still running
        Path(f"{gate}{n}").touch()
        answer = bench.answer(waiting)
        if event == "ended":
            assert (answer["state"], answer["ending"]) == ("ended", "finished")
            assert answer["metrics"]["task_pass_rate@1"] == 0.25
        else:
            assert (answer["state"], answer["event"]) == ("running", event)
            seq = answer["seq"]
    bench.settled(payload, "finished")


# ------------------------------------------------------------------ records that were left half-way


def uncollected(bench: Any, **values: str) -> dict[str, Any]:
    """A run that is over, but whose records nobody has written."""
    blueprint = bench.blueprint("ok", **values)
    payload = bench.ask("run", blueprint, "--detach", AUTORESEARCH_FAILPOINT="collect.measured:kill")
    bench.until(lambda: (Path(payload["run_dir"]) / "exit.json").exists() and not bench.carriers())
    return dict(payload)


@pytest.mark.system
def test_one_run_that_cannot_be_recorded_keeps_no_other_from_it(bench: Any) -> None:
    stuck = uncollected(bench, name="a.md", title="First", result_dir=str(bench.root / "a"))
    payload = uncollected(bench, name="b.md", title="Second", result_dir=str(bench.root / "b"))
    Path(stuck["ledger"]).write_text("somebody\telse's\ttable\n")
    asked = bench.ask("status")
    assert [(r["run"], bool(r["trouble"])) for r in asked["runs"]] == [(stuck["run"], True), (payload["run"], False)]
    assert asked["living"] == 0
    assert [r["run"] for r in bench.ask("status")["runs"] if r["trouble"]] == [stuck["run"]]
    bench.settled(payload, "finished")
    with mock.patch("autoresearch.lab.runs.adopt._settled", side_effect=OSError(errno.ENOSPC, "No space left")):
        why = f"{os.path.relpath(stuck['run_dir'], bench.repo)}: No space left"
        assert f"not recorded: {why}\n" in bench.here("status")[1]
    Path(stuck["ledger"]).unlink()
    assert [bool(r["ending"]) for r in bench.ask("status")["runs"]] == [True]
    bench.settled(stuck, "finished")


@pytest.mark.system
def test_an_exit_record_that_only_lacks_its_name_is_taken(bench: Any) -> None:
    payload = uncollected(bench)
    run_dir = Path(payload["run_dir"])
    (run_dir / "exit.json").rename(run_dir / "exit.rec")
    assert [r["ending"] for r in bench.ask("status")["runs"]] == ["finished"]
    assert bench.settled(payload, "finished")["returncode"] == 0


BAD_RECORDS = [("rec", b'{"run": "somebody", "ending": "finished"}'), ("rec", b'{"run": "'), ("json", b"{} and more")]


@pytest.mark.system
@pytest.mark.parametrize(("name", "record"), BAD_RECORDS)
def test_an_exit_record_that_was_not_finished_or_is_damaged_is_none(bench: Any, name: str, record: bytes) -> None:
    payload = uncollected(bench)
    run_dir = Path(payload["run_dir"])
    (run_dir / "exit.json").unlink()
    (run_dir / f"exit.{name}").write_bytes(record)
    assert [r["ending"] for r in bench.ask("status")["runs"]] == ["lost"]
    bench.settled(payload, "lost")


@pytest.mark.system
def test_a_run_directory_that_was_removed(bench: Any) -> None:
    payload = uncollected(bench)
    shutil.rmtree(payload["run_dir"])
    refused(bench, 4, "status", payload["run"], says="is gone")
    again = bench.ask("run", bench.blueprint("ok"))
    assert again["ending"] == "finished" and again["run"] != payload["run"]


# ----------------------------------------------------------------------- project commands


@pytest.mark.system
def test_settings_and_where_they_come_from(bench: Any) -> None:
    made = bench.ask("init")
    refused(bench, 5, "init", says="exists already")
    text = Path(made["path"]).read_text()
    Path(made["path"]).write_text(re.sub(r"(?m)^# (max_time|grace): .*", r"\1: 7m", text))
    shown = bench.ask("config", "show", AUTORESEARCH_GRACE="9s")
    assert shown["file"] == made["path"]
    assert shown["settings"]["max_time"] == {"value": "7m", "source": made["path"]}
    assert shown["settings"]["grace"] == {"value": "9s", "source": "environment AUTORESEARCH_GRACE"}
    assert shown["settings"]["prefix"] == {"value": "autoresearch", "source": "built-in"}
    planned = bench.ask("run", bench.blueprint("ok"), "--dry-run", "--grace", "3s", AUTORESEARCH_GRACE="9s")
    assert planned["limits"]["grace_s"] == 3.0 and planned["limits"]["max_s"] == 600.0  # the blueprint's own
    refused(bench, 4, "init", bench.root / "nowhere", says="there is no directory")
    refused(bench, 2, "init", "make", "train", says="a command stands behind `--`")


@pytest.mark.system
def test_doctor_and_schema(bench: Any) -> None:
    found = bench.ask("doctor")
    assert found["fit"] and found["repository"] == str(bench.repo) and found["tmux"] and found["git"]
    assert bench.ask("doctor", check=6, PATH="/nowhere")["fit"] is False
    schema = bench.ask("config", "schema", "blueprint")
    assert next(s["name"] for s in schema["sections"]) == "exp_purpose" and len(schema["sections"]) == 7
    (bench.repo / "example.md").write_text(schema["example"])
    assert bench.here("blueprint", "check", "example.md")[0] == 3  # well written, but its codebase is not here


# -------------------------------------------------------------------------- what is documented


def table_rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]


def test_every_exit_code_is_documented() -> None:
    from autoresearch import errors
    from autoresearch.core.run.ending import Ending, exit_code

    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.AutoresearchError)]
    codes = {e.exit_code for e in kinds} | {exit_code(e, measured=m) for e in Ending for m in (True, False)} | {0, 130}
    documented = {int(row[0]) for row in table_rows(CODES) if row[0].isdecimal()}
    assert codes <= documented
    said = {int(n) for n in re.findall(r"(?<![\w.])(\d+) [a-z]", (cli.__doc__ or "").split("\n\n")[1])}
    assert codes <= said == documented


@pytest.mark.system
def test_the_front_door_is_a_real_process(bench: Any) -> None:
    """What the other tests ask in this process is the same from outside: streams, exit code, no TTY."""
    done = bench.cli("run", "gone.md", check=4)
    assert done.stdout == "" and done.stderr.startswith("autoresearch: there is no blueprint ")
    assert len(done.stderr.splitlines()) <= 3
    reader, writer = os.pipe()
    os.close(reader)  # `autoresearch config schema | head -0`
    closed = subprocess.run(
        [sys.executable, "-m", "autoresearch", "config", "schema"],
        env=bench.env,
        cwd=bench.repo,
        stdout=writer,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    os.close(writer)
    assert (closed.returncode, closed.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("number", "file", "code", "told"),
    [
        (errno.EACCES, "/x/y", 6, "/x/y: Permission denied|work in a copy"),
        (errno.EPERM, "/x/y", 6, "/x/y: Operation not permitted|work in a copy"),
        (errno.EROFS, "/x/y", 6, "/x/y: Read-only file system|work in a copy"),
        (errno.ENOSPC, "/x/y", 6, "/x/y cannot be written: No space left on device|free some space|df -h /x"),
        (errno.ENOSPC, None, 6, "a file cannot be written: No space left on device|free some space|df -h ."),
        (errno.ENOENT, None, 4, "the current directory was removed|go to that of your project"),
        (errno.ENOENT, "/x/y", 6, "/x/y: No such file or directory"),
    ],
)
def test_what_the_system_refuses_has_a_remedy(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: int,
    file: str | None,
    code: int,
    told: str,
) -> None:
    if told.startswith("the current"):
        monkeypatch.chdir(tmp_path)
        tmp_path.rmdir()
    error = OSError(number, os.strerror(number), *[file] * bool(file))
    with mock.patch("autoresearch.commands.output.show", side_effect=error):
        assert cli.run(["config", "show"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert all(part in line for part, line in zip(told.split("|"), lines, strict=True)), lines


@pytest.mark.parametrize("words", [("folow",), ("colect",), ("swarm", "serv"), ("campaign", "start", "--x"), ("logz",)])
def test_a_typo_is_never_told_to_mean_a_command_of_our_own(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert cli.run(list(words)) == 2
    said = capsys.readouterr().err
    assert not [name for name in cli.CALLED_BY_US if f"'{name.split()[-1]}'" in said]
    assert "Did you mean 'logs'" in said or words != ("logz",)


@pytest.mark.system
@pytest.mark.parametrize(
    "line, code, said",
    [
        ("config schema blueprint 2>&-", 0, ""),
        ("config schema blueprint >/dev/full", 6, "No space left"),
        ("status no-such-run >&-", 4, "no run of"),
        ("--version >/dev/full", 120, "No space left"),
    ],
)
def test_output_that_is_closed_or_full(line: str, code: int, said: str) -> None:
    """A process leaves without Python's own end, which flushes: what could not be written still has its exit code."""
    whole = f"{sys.executable} -m autoresearch {line}"
    done = subprocess.run(["sh", "-c", whole], cwd=REPO, capture_output=True, text=True, timeout=60)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
