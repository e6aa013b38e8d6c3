"""Lint of commands, scripts, recipes and paths, each finding with a near miss."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoresearch.core.blueprint.finding import Finding, Severity, one_of_a_kind
from autoresearch.core.blueprint.lint import lint_blueprint, lint_recipe
from autoresearch.core.blueprint.lint import lint_shell as lint_reading
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.shell import ShellReading, no_file, read_shell


def lint_shell(text: str, *, where: str, line: int = 1) -> list[Finding]:
    return lint_reading(read_shell(text), where=where, line=line)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("python -m ajet.launcher --conf x.yaml --autokill", "autokill"),
        ("python -m ajet.launcher --kill 'ray|python'", "kills_by_name"),
        ("/v/bin/python -X dev -u -m ajet.launcher --conf x.yaml --kill 'a|python'", "kills_by_name"),
        ("ajet-swarm start --kill='a|python'", "kills_by_name"),
        ("ARGS='--conf x.yaml --autokill'\npython -m ajet.launcher $ARGS", "autokill"),
        ("export MORE=--autokill; bash run.sh", "autokill"),
        ("pkill -9 python; python x", "kills_by_name"),
        ("sudo -n /usr/bin/killall ray", "kills_by_name"),
        ("A=1 pkill x", "kills_by_name"),
        ("timeout -s 9 10 pkill x", "kills_by_name"),
        ("bash -c 'pkill -f x && python y'", "kills_by_name"),
        ('bash -lc "pkill x"', "kills_by_name"),
        ("ssh host 'pkill -9 ray'", "kills_by_name"),
        ("eval pkill x", "kills_by_name"),
        ("env -C x pkill y", "kills_by_name"),
        ("sudo -u me -D /tmp pkill y", "kills_by_name"),
        ("nice -n 5 taskset -c 0-3 pkill y", "kills_by_name"),
        ("xargs -n 1 pkill < names", "kills_by_name"),
        ("tmux -L x kill-server", "kills_tmux"),
        ("ray stop --force && ray start --head", "stops_ray"),
        ("uv run --extra vllm --frozen ray stop --force", "stops_ray"),
        ("python3 -m ray.scripts.scripts stop --force", "stops_ray"),
        ("conda run -n train pkill x", "kills_by_name"),
        ("ssh -o StrictHostKeyChecking=no -p 22 root@h 'sleep 1; pkill -9 ray'", "kills_by_name"),
        ('ssh "$WORKER" "pkill -9 sglang ; ray stop --force"', "stops_ray"),
        ("pushd x; (cd y && pkill z) &", "kills_by_name"),
        ("clean() { pkill x; }; python t.py", "kills_by_name"),
        ("for h in a b; do ssh $h pkill x; done", "kills_by_name"),
        ("srun -n 4 --label pkill x", "kills_by_name"),
        ("ray job submit --no-wait -- bash -c 'pkill x'", "kills_by_name"),
        ("case $A in x) pkill y;; esac", "kills_by_name"),
        ("if pkill x; then\necho 'never closed", "kills_by_name"),
    ],
)
def test_what_hurts_others_is_an_error(command: str, code: str) -> None:
    findings = lint_shell(command, where="b.md")
    assert code in {f.code for f in findings if f.severity == "error"}
    assert all(f.message and f.hint for f in findings)


@pytest.mark.parametrize(
    "command",
    [
        "echo 'never use --autokill or pkill'",
        "# pkill python\npython x",
        "python x # --autokill",
        "python pkill.py --autokiller",
        "cat > f <<EOF\npkill x\nEOF\npython y",
        "pkill -P $$",
        "pkill --parent 12 -TERM",
        "trap 'kill $PID' EXIT; python t.py",
        "tmux kill-session -t =mine",
        "ray start --head; python stop.py; ray status",
        "python -m ray stop_words",
        'echo "unbalanced',
        "python x --kill python",
        "python x --auto",
        "NOTE='--autokiller is no flag' python x",
    ],
)
def test_near_misses(command: str) -> None:
    assert [f for f in lint_shell(command, where="b.md") if f.severity == "error"] == []


def _of_run_sh(text: str) -> ShellReading:
    return read_shell("bash run.sh", open_text=lambda path: text if path == "run.sh" else no_file(path))


def test_scripts() -> None:
    text = "#!/bin/bash\nset -e\n\nray stop --force\npython x | tee y\nsleep 3 &\n"
    findings = lint_reading(_of_run_sh(text), where="b.md")
    assert [str(f).split(": ")[0] for f in findings] == ["run.sh:4"]


def opener(**texts: str) -> Callable[[str], str]:
    return lambda path: texts[path] if path in texts else no_file(path)


def test_what_a_slurm_job_kills_on_its_own_nodes_is_a_warning() -> None:
    (finding,) = lint_reading(
        read_shell("sbatch --wait x.sub", open_text=opener(**{"x.sub": "ray stop\n"})), where="b.md"
    )
    assert (finding.code, finding.severity) == ("stops_ray", "warning")


def test_one_fact_is_one_finding() -> None:
    text = "## [exp_launch_command]\n- command: bash a.sh\n## Notes\n- prepare: bash a.sh\n- cleanup: bash a.sh\n"
    blueprint = parse_blueprint(text.encode(), "b.md")
    found = lint_blueprint(blueprint, lambda command: read_shell(command, open_text=opener(**{"a.sh": "pkill x\n"})))
    assert [(f.code, f.where, f.line) for f in found] == [("kills_by_name", "a.sh", 1)]


def test_prose_in_prepare_is_told() -> None:
    text = "## [exp_launch_command]\n- command: python x\n## Notes\n- prepare: make sure the data is there\n"
    findings = lint_blueprint(parse_blueprint(text.encode(), "b.md"))
    assert [(f.code, f.severity.value, f.line) for f in findings] == [("not_a_command", "warning", 3)]
    text = text.replace("make sure the data is there", "make data")
    assert lint_blueprint(parse_blueprint(text.encode(), "b.md")) == []


def test_a_blueprint_is_linted_where_its_command_stands() -> None:
    text = (
        "## [exp_launch_command]\n- description: x\n- command:\n  ```\n  true\n  pkill x\n  ```\n"
        "## [exp_codebase_dir]\n- dir: code\n## [exp_venv_exe]\n- path: python3\n"
        "## [exp_result_dir]\n- path: /abs\n"
        "## [exp_yaml_path]\n- path: ~/x.yaml\n## Notes\n- prepare: killall x\n- cleanup: ls | tee x\n"
    )
    findings = lint_blueprint(parse_blueprint(text.encode(), "b.md"))
    assert [(f.code, f.line) for f in findings] == [
        ("kills_by_name", 6),
        ("kills_by_name", 16),
    ]


RECIPE = """\
# execute_test: True
ajet:
  project: x
  execute_test: True
  trainer_common:
    val_print_to_markdown_file_path: val.md
"""


def test_recipes() -> None:
    data = {
        "ajet": {
            "execute_test": True,
            "trainer_common": {
                "val_print_to_markdown_file_path": "val.md",
                "train_print_to_markdown_file_path": "a/b",
            },
        }
    }
    findings = lint_recipe(data, RECIPE, where="r.yaml")
    assert [(f.code, f.line, f.severity.value) for f in findings] == [
        ("execute_test", 4, "error"),
        ("path_without_directory", 6, "error"),
    ]
    assert "./val.md" in findings[1].hint


@pytest.mark.parametrize("value", [False, None, 0, "False"])
def test_recipes_that_are_fine(value: object) -> None:
    data = {
        "ajet": {"execute_test": value},
        "val_print_to_markdown_file_path": "./val.md",
        "execute_tests": True,
    }
    assert lint_recipe(data, "", where="r.yaml") == []
    assert lint_recipe({"ajet.execute_test": True}, "", where="r.yaml")[0].line == 0


def test_prose_that_would_be_the_evaluation_is_an_error() -> None:
    text = "## [exp_launch_command]\n- command: python x\n\n## Notes\n- evaluate: the checkpoint every 10 steps.\n"
    findings = lint_blueprint(parse_blueprint(text.encode(), "b.md"))
    assert [(f.code, f.severity.value) for f in findings] == [("not_a_command", "error")]


def test_warnings_of_a_kind_are_counted_and_errors_are_not() -> None:
    both = (Severity.WARNING, Severity.ERROR)
    found = [Finding(severity, "unknown_key", f"no key {name}") for severity in both for name in "ab"]
    told = ["warning: no key a; 1 more like it", "error: no key a", "error: no key b"]
    assert one_of_a_kind(found) == told
