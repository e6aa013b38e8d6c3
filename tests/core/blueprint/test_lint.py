"""Lint of commands, scripts, recipes and paths, each finding with a near miss."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.blueprint.lint import lint_blueprint, lint_recipe
from autoresearch.core.blueprint.lint import lint_shell as lint_reading
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.shell.commands import ShellReading, no_file
from autoresearch.core.shell.reading import read_shell, simple_commands


def lint_shell(text: str, *, where: str, line: int = 1) -> list[Finding]:
    return lint_reading(read_shell(text), where=where, line=line)


def found(text: str) -> list[tuple[str, int]]:
    return [(f.code, f.line) for f in lint_shell(text, where="b.md", line=10)]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("python -m ajet.launcher --conf x.yaml --autokill", "autokill"),
        ("python -m ajet.launcher --kill 'ray|python'", "kills_by_name"),
        ("ajet --kill=python", "kills_by_name"),
        ("ajet --kill 'a|python' --conf x.yaml", "kills_by_name"),
        ("/v/bin/python -X dev -u -m ajet.launcher --conf x.yaml --kill 'a|python'", "kills_by_name"),
        ("ajet-swarm start --kil 'a|python'", "kills_by_name"),
        ("ajet-swarm start --swarm-port=10086 --autokill", "autokill"),
        ("ajet --conf x.yaml --auto", "autokill"),
        ("ARGS='--conf x.yaml --autokill'\npython -m ajet.launcher $ARGS", "autokill"),
        ("ARGS+=(--autokill); ajet $ARGS", "autokill"),
        ("export MORE=--autokill; bash run.sh", "autokill"),
        ("pkill -9 python; python x", "kills_by_name"),
        ("sudo -n /usr/bin/killall ray", "kills_by_name"),
        ("if true; then pkill x; fi", "kills_by_name"),
        ("A=1 pkill x", "kills_by_name"),
        ("timeout -s 9 10 pkill x", "kills_by_name"),
        ("bash -c 'pkill -f x && python y'", "kills_by_name"),
        ('bash -lc "pkill x"', "kills_by_name"),
        ("ssh host 'pkill -9 ray'", "kills_by_name"),
        ("eval pkill x", "kills_by_name"),
        ("a=$(pkill x)", "kills_by_name"),
        ("a=`pkill x`", "kills_by_name"),
        ("bash <<EOF\npkill x\nEOF", "kills_by_name"),
        ("kill -9 $(pgrep python)", "kills_by_name"),
        ("ps aux | grep python | awk '{print $2}' | xargs kill -9", "kills_by_name"),
        ("kill -9 -1", "kills_all"),
        ("env -C x pkill y", "kills_by_name"),
        ("env -S 'pkill y'", "kills_by_name"),
        ("sudo -u me -D /tmp pkill y", "kills_by_name"),
        ("nice -n 5 taskset -c 0-3 pkill y", "kills_by_name"),
        ("su me -c 'pkill y'", "kills_by_name"),
        ("xargs -n 1 pkill < names", "kills_by_name"),
        ("tmux -L x kill-server", "kills_tmux"),
        ("ray stop", "stops_ray"),
        ("ray stop --force && ray start --head", "stops_ray"),
        ("uv run ray stop", "stops_ray"),
        ("uv run --extra vllm --frozen ray stop --force", "stops_ray"),
        ("python3 -m ray.scripts.scripts stop --force", "stops_ray"),
        ("uv run python -m ray.scripts.scripts stop", "stops_ray"),
        ("conda run -n train pkill x", "kills_by_name"),
        ("ssh -o StrictHostKeyChecking=no -p 22 root@h 'sleep 1; pkill -9 ray'", "kills_by_name"),
        ('ssh "$WORKER" "pkill -9 sglang ; ray stop --force"', "stops_ray"),
        ("ssh h <<EOF\npkill x\nEOF", "kills_by_name"),
        ("pushd x; (cd y && pkill z) &", "kills_by_name"),
        ("clean() { pkill x; }; python t.py", "kills_by_name"),
        ("trap 'pkill x' EXIT; python t.py", "kills_by_name"),
        ("K=pkill; $K -9 python", "kills_by_name"),
        ("for h in a b; do ssh $h pkill x; done", "kills_by_name"),
        ("srun -n 4 --label pkill x", "kills_by_name"),
        ("ray job submit --no-wait -- bash -c 'pkill x'", "kills_by_name"),
        ("case $A in x) pkill y;; esac", "kills_by_name"),
        ("echo pkill x | bash", "kills_by_name"),
        ("cat <<EOF | bash\npkill x\nEOF", "kills_by_name"),
        ("if pkill x; then\necho 'never closed", "kills_by_name"),
        ("git clean -fdx && python train.py", "wipes_records"),
        ("git clean -fdxq; git clean -ffdx; git clean -xdf", "wipes_records"),
        ("git -C src/.. clean -d --force -X", "wipes_records"),
        ("cd reports && git clean -xf .", "wipes_records"),
        ("rm -rf reports; python x", "wipes_records"),
        ("rm -fr -- ./reports/auto_research/20261126-x", "wipes_records"),
        ("rm --recursive rep*", "wipes_records"),
        ("rm -R *", "wipes_records"),
        ("bash -c 'cd src; rm -rf ..'", "wipes_records"),
        ("clean() { rm -rf reports/; }; python x", "wipes_records"),
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
        "python x --note pkill",
        "cat > f <<EOF\npkill x\nEOF\npython y",
        "kill $PID",
        "pkill -P $$",
        "pkill --parent 12 -TERM",
        "ray job stop ID; uv run ray status",
        "K=pkill; echo $K",
        "trap 'kill $PID' EXIT; python t.py",
        "ssh pkill ls",
        "kill -1 123",
        "kill -0 -123",
        "tmux kill-session -t =mine",
        "ray start --head; python stop.py; ray status",
        "python -m ray stop_words",
        'echo "unbalanced',
        "python x --kill python",
        "python x --auto",
        "ajet --conf x.yaml --backbone verl --debug a",
        "NOTE='--autokiller is no flag' python x",
        "python tests/bench/kill.py --kind ajet",
        "git clean -fd; git clean -ndx; git clean -fdx build; git clean -fdx -e reports",
        "cd src && git clean -fdx; cd $X && rm -rf reports",
        "rm -rf out reports/tables reports.old $OUT; rm reports/*.tmp; rm -rf src/*",
        "docker run img rm -rf reports; ssh host 'rm -rf reports'; echo rm -rf reports",
    ],
)
def test_near_misses(command: str) -> None:
    assert [f for f in lint_shell(command, where="b.md") if f.severity == "error"] == []


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("python x | tee log", [("hidden_exit_code", 10)]),
        ("cd a && \\\npython x 2>&1 |\n tee log", [("hidden_exit_code", 12)]),
        ("python x |& grep -v foo", [("hidden_exit_code", 10)]),
        ("python x | grep -v a | tee b", [("hidden_exit_code", 10)]),
        ("set -o pipefail; python x | tee log", []),
        ("python x | tee log; exit ${PIPESTATUS[0]}", []),
        ("python x > >(tee log)", []),
        ("yes | python x", []),
        ("python x || true", [("hidden_exit_code", 10)]),
        ("python x || exit 3", []),
        ("python y || pkill -P $$ || true", []),
        ("mkdir a || true; python x", []),
        ("set -euo pipefail; python x | tee log", []),
        ("python x | sort | tee log", [("hidden_exit_code", 10)]),
        ("nohup python x > log 2>&1 &", [("background", 10)]),
        ("( cd a; python x ) &", [("background", 10)]),
        ("python s.py & python c.py", []),
        ("python s.py & python c.py & wait", []),
        ("python x 2>&1", []),
        ("python x &> log", []),
        ("setsid python x", [("detached", 10)]),
        ("tmux new-session -d -s x 'python y'", [("detached", 10)]),
        ("ray job submit --no-wait -- python x", [("detached", 10)]),
        ("ray job submit -- python x", []),
        ("sbatch --wait x.sub", []),
        ("sbatch x.sub", [("detached", 10)]),
        ("docker run --rm img python x -d; docker exec c python y --detach", []),
        ("docker compose up -d\npodman run -itd img python x", [("detached", 10), ("detached", 11)]),
        ("kubectl -n a create --filename=job.yaml", [("detached", 10)]),
        ("kubectl get -f job.yaml; kubectl apply --help", []),
        ("sky jobs launch --async t.yaml", [("detached", 10)]),
        ("sky launch -c x t.yaml; wandb login", []),
        ("uv run src/train.py --multirun lr=1", [("detached", 10)]),
        ("python -m train lr=0.1,0.2; python train.py lr=0.1 betas=[1,2] -m", []),
        ("torchrun train.py -m lr=0.1", []),
        ("for lr in 1 2; do python train.py --lr $lr; done", [("detached", 10)]),
        ("for x in 1; do python train.py; done; for f in a b; do python prep.py $f; done; python train.py", []),
        ("python train.py --seed 1 & python train.py --seed 2 & wait", [("detached", 10)]),
        ("python run.py --len 1\npython run.py --len 2", [("detached", 11)]),  # LTSF-Linear
        ("python run.py --len 1\npython run.py --len 1 --more 2; python run.py --test --len 2", []),
        ("if a; then python run.py --len 1; else python run.py --len 2; fi", []),
        ("python run.py --stage 1 && python run.py --stage 2", []),
        ("find . | xargs rm -f; python serve.py & python train.py", []),
        ("$ python x", [("prompt", 10)]),
    ],
)
def test_what_hides_the_end_is_a_warning(command: str, codes: list[tuple[str, int]]) -> None:
    assert found(command) == codes
    assert all(f.severity == "warning" for f in lint_shell(command, where="b.md"))


def test_lines_follow_quotes_continuations_and_here_documents() -> None:
    text = "cat <<'A'\nx\n\ny\nA\necho 'a\nb' \\\n  c\n\npkill x\n"
    assert [(c.line, c.words[0]) for c in simple_commands(text)] == [(1, "cat"), (6, "echo"), (10, "pkill")]


def test_words_are_unquoted() -> None:
    (command,) = simple_commands("""A='x y' sudo -n /bin/p"k"ill "a\\"b $c" d\\ e 'f''g'""")
    assert command.words == ["A=x y", "sudo", "-n", "/bin/pkill", 'a"b $c', "d e", "fg"]
    assert (command.name, command.argv[1:]) == ("pkill", ['a"b $c', "d e", "fg"])


def _of_run_sh(text: str) -> ShellReading:
    return read_shell("bash run.sh", open_text=lambda path: text if path == "run.sh" else no_file(path))


def test_scripts() -> None:
    text = "#!/bin/bash\nset -e\n\nray stop --force\npython x | tee y\nsleep 3 &\n"
    findings = lint_reading(_of_run_sh(text), where="b.md")
    assert [str(f).split(": ")[0] for f in findings] == ["run.sh:4", "run.sh:5"]


def opener(**texts: str) -> Callable[[str], str]:
    def open_text(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return texts[path]

    return open_text


PYTHON = """\
import os, subprocess
from subprocess import run
CLEAN = "pkill -9 ray"
def clean(name):
    {call}
"""


@pytest.mark.parametrize(
    "call",
    [
        *('subprocess.run("pkill -9 python", shell=True)', "os.system('sleep 1; pkill -9 ray')", 'run(["pkill", "x"])'),
        *('subprocess.Popen(("ray", "stop", "--force"))', "os.system(CLEAN)", 'exec_command(f"pkill -9 {name}; true")'),
        *('subprocess.check_call("ssh h \'pkill x\'".split())', 'subprocess.run("pkill " + name, shell=True)'),
    ],
)
def test_what_a_python_launcher_kills(call: str) -> None:
    files = {"run.py": PYTHON.format(call=call), "go.sh": "uv run python run.py\n"}
    for command in ("python run.py --lr 1", "cd . && python -m run", "bash go.sh", "torchrun --nnodes 1 run.py"):
        (finding,) = lint_reading(read_shell(command, open_text=opener(**files)), where="b.md")
        assert (finding.severity, finding.where, finding.line) == ("error", "run.py", 5)


@pytest.mark.parametrize(
    "call", ["print('pkill x')", "log.info('then: pkill x')", "subprocess.run(['echo', 'pkill'])", "'pkill x'", "oops("]
)
def test_what_a_python_launcher_may_say(call: str) -> None:
    reading = read_shell("python run.py", open_text=opener(**{"run.py": PYTHON.format(call=call)}))
    assert lint_reading(reading, where="b.md") == []


def test_pipefail_in_a_sourced_file_counts() -> None:
    files = {"go.sh": "source common.env\npython x | tee log\n", "common.env": "set -eou pipefail\n"}
    assert lint_reading(read_shell("bash go.sh", open_text=opener(**files)), where="b.md") == []
    files["common.env"] = "set -eu\n"
    (finding,) = lint_reading(read_shell("bash go.sh", open_text=opener(**files)), where="b.md")
    assert (finding.code, finding.where, finding.line) == ("hidden_exit_code", "go.sh", 2)


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
        ("relative_path", 9),
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


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ("- time: the first step within 30 hours", True),
        ("- time: 10 minutes in all", False),
        ("- time: 1 hour in all, 1 hour to the first step", False),
    ],
)
def test_a_first_step_longer_than_the_default_for_all_is_told(times: str, told: bool) -> None:
    text = f"## [exp_launch_command]\n- command: python -m x\n## [exp_max_time]\n{times}\n"
    findings = parse_blueprint(text.encode(), "b.md").findings
    assert [f.line for f in findings if f.code == "limits_crossed"] == [4] * told


def test_prose_that_would_be_the_evaluation_is_an_error() -> None:
    text = "## [exp_launch_command]\n- command: python x\n\n## Notes\n- evaluate: the checkpoint every 10 steps.\n"
    findings = lint_blueprint(parse_blueprint(text.encode(), "b.md"))
    assert [(f.code, f.severity.value) for f in findings] == [("not_a_command", "error")]
