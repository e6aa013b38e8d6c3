"""`--launcher` of every command: what is refused, in what words, and that nothing was written before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

SLURM = ("sbatch", "squeue", "scancel")


def without(bench: Any, *gone: str) -> str:
    """A PATH on which a run on this machine finds all that it needs, and none of those programs."""
    folder = bench.root / "bin"
    folder.mkdir()
    for name in {"bash", "sh", "env", "git", "tmux", "ssh", "nice", "sbatch", "squeue", "scancel"} - {*gone}:
        if found := shutil.which(name, path=bench.env["PATH"]):
            (folder / name).symlink_to(found)
    return str(folder)


def refused(bench: Any, *args: object, code: int, **env: str) -> dict[str, Any]:
    """The error of a command that leaves no branch, no session, no row and no file behind."""
    before = (bench.picture("/state", "/bin/"), bench.git("branch", "--list", "--all"))
    told = bench.ask(*args, check=code, **env)["error"]
    assert (bench.picture("/state", "/bin/"), bench.git("branch", "--list", "--all")) == before
    assert not bench.tmux("list-sessions").stdout
    assert not bench.ask("status")["runs"]
    return dict(told)


def campaign(bench: Any, **keys: object) -> Path:
    """A campaign file over exp.md."""
    bench.blueprint()
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a blueprint", "--allow-empty")
    usual = {"count": 2, "proposer": "queue", "queue": "ideas"}
    text = "".join(f"{key}: {value}\n" for key, value in usual.items())
    (bench.repo / "ideas").mkdir(exist_ok=True)
    path: Path = bench.repo / "campaign.yaml"
    path.write_text("blueprint: exp.md\n" + text + "".join(f"{key}: {value}\n" for key, value in keys.items()))
    return path


def project(bench: Any, text: str) -> None:
    (bench.repo / "autoresearch.yaml").write_text(text)


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        *(("slurm", "no_sbatch", words) for words in ((), ("--dry-run",), ("--detach",))),
        ("ssh:gpu1", "no_ssh", ()),
    ],
)
def test_a_run_without_the_program_of_its_target(bench: Any, target: str, code: str, words: tuple[str, ...]) -> None:
    path, gone = bench.blueprint(), ("ssh",) if code == "no_ssh" else SLURM
    told = refused(bench, "run", path, "--launcher", target, *words, code=6, PATH=without(bench, *gone))
    assert told["code"] == code and (target == "ssh:gpu1" or "slurm" in told["message"]) and told["hint"]


@pytest.mark.parametrize("words", [(), ("--yes", "--detach")])
def test_a_campaign_without_sbatch(bench: Any, words: tuple[str, ...]) -> None:
    path = campaign(bench, launcher="local:2, slurm:4")
    told = refused(bench, "campaign", path, *words, code=6, PATH=without(bench, *SLURM))
    assert told["code"] == "no_sbatch"


@pytest.mark.parametrize(
    ("yaml", "launcher", "says", "code"),
    [
        ("", "slrum", "'slrum' is no launcher", "bad_launcher"),
        ("", "local, slurm", "a run goes to one target, and 2 are named: local, slurm", "bad_launcher"),
        ("launchers: [gpu1]\n", "", "launchers: must hold a block of options for each name", "bad_launcher"),
        ("launchers: {a: {kind: ray, token: x9f8e7d6c5b4a3f2e1}}\n", "a", "holds a secret", "secret_in_file"),
    ],
)
def test_a_place_that_cannot_be_understood(bench: Any, yaml: str, launcher: str, says: str, code: str) -> None:
    project(bench, yaml)
    words = ("--launcher", launcher) if launcher else ()
    told = refused(bench, "run", bench.blueprint(), *words, code=2)
    assert says in told["message"] and told["code"] == code


def where(bench: Any, *args: object, **env: str) -> tuple[str, str]:
    plan = bench.ask("campaign", *args, "--dry-run", **env)
    return plan["plan"]["where"], plan["plan"]["each run"]


def test_who_says_where_a_campaign_goes(bench: Any) -> None:
    path = campaign(bench)
    assert where(bench, path)[0] == "local:1"
    project(bench, "launcher: local:3\n")
    assert where(bench, path)[0].startswith("local:3") and "3 at a time" in where(bench, path)[1]
    (bench.repo / "campaign.yaml").write_text(path.read_text() + "launcher: local:4\n")
    assert where(bench, path)[0].startswith("local:4")
    assert where(bench, path, AUTORESEARCH_LAUNCHER="local:5")[0].startswith("local:5")
    said = where(bench, path, "--launcher", "local:6", AUTORESEARCH_LAUNCHER="local:5")
    assert said[0] == "local:6  (flag --launcher)" and "6 at a time" in said[1]


def test_what_is_typed_wins_over_the_parallel_of_the_file(bench: Any) -> None:
    path = campaign(bench, parallel=2)
    assert where(bench, path, "--launcher", "local:4")[0].startswith("local:4 ")
    assert where(bench, path, "--launcher", "local")[0].startswith("local:2 ")
    told = refused(bench, "campaign", path, "--launcher", "local:4", "--parallel", "3", code=2)
    assert "parallel is 3" in told["message"] and told["hint"]


def test_a_note_says_where_a_run_goes(bench: Any) -> None:
    path = bench.blueprint(notes="- launcher: slurm")
    gone = {"PATH": without(bench, *SLURM)}
    assert refused(bench, "run", path, "--dry-run", code=6, **gone)["code"] == "no_sbatch"
    assert bench.ask("run", path, "--dry-run", "--launcher", "local", **gone)["place"]["kind"] == "local"
    assert bench.ask("run", path, "--dry-run", AUTORESEARCH_LAUNCHER="local", **gone)["place"]["kind"] == "local"
    project(bench, "launcher: local\n")
    assert refused(bench, "run", path, "--dry-run", code=6, **gone)["code"] == "no_sbatch"


def test_a_campaign_overrules_a_note_and_says_so(bench: Any) -> None:
    path = campaign(bench, launcher="local:2")
    bench.blueprint(notes="- launcher: slurm")
    said = bench.ask("campaign", path, "--dry-run", PATH=without(bench, *SLURM))
    (remark,) = [one for one in said["remarks"] if "launcher" in one]
    assert "the blueprint says `launcher: slurm`, and the campaign decides" in remark
    assert said["plan"]["where"].startswith("local:2")


def test_config_shows_places_and_what_is_wrong_with_them(bench: Any) -> None:
    project(bench, "launchers: {gpu1: {kind: ssh, slots: 4}, bad: {kind: ray, adress: x}}\n")
    shown = {one["name"]: one for one in bench.ask("config", "show")["launchers"]}
    assert (shown["gpu1"]["kind"], shown["gpu1"]["slots"], shown["gpu1"]["error"]) == ("ssh", 4, None)
    assert "ray has no such option" in shown["bad"]["error"]
    code, out, _ = bench.here("config", "show")
    assert code == 0 and "launchers.gpu1" in out and "ssh, 4 at a time; host gpu1" in out


def test_the_doctor_asks_a_place_that_is_not_there(bench: Any) -> None:
    gone = {"PATH": without(bench, *SLURM)}
    said = bench.ask("doctor", "--launcher", "local, slurm:8", check=6, **gone)
    (place,) = said["places"]
    assert (place["name"], place["slots"], place["fit"]) == ("slurm", 8, False)
    assert [one["code"] for one in place["findings"]] == ["no_sbatch"]
    code, out, _ = bench.here("doctor", "--launcher", "slurm", **gone)
    lines = out.splitlines()
    assert code == 6 and "slurm: a run could not be sent there" in lines
    assert max(map(len, lines[lines.index("slurm: a run could not be sent there") :])) <= 80


def test_a_host_that_does_not_answer_is_named_once(bench: Any) -> None:
    told = refused(bench, "run", bench.blueprint(), "--launcher", "ssh:nosuch.invalid", code=6)
    assert told["message"].startswith("nosuch.invalid: ") and told["code"] == "no_answer"


def test_a_variable_that_is_not_set_sends_a_run_nowhere(bench: Any) -> None:
    path = bench.blueprint()
    for words in (("run", path), ("run", path, "--dry-run"), ("campaign", path, "--count", "2", "--yes"), ("doctor",)):
        for said in ("", " "):
            told = refused(bench, *words, "--launcher", said, code=2)
            assert told["code"] == "bad_launcher" and "no target is named" in told["message"]
