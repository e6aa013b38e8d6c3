"""Which scripts a command starts, and where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from autoresearch.core.shell.commands import Script
from autoresearch.core.shell.programs import recipe_lines
from autoresearch.core.shell.reading import read_shell


def named_scripts(
    text: str, variables: Mapping[str, str] | None = None, *, earlier: Sequence[str] = (), line: int = 1
) -> tuple[Script, ...]:
    return tuple(one for one in read_shell(text, variables, earlier=earlier, line=line).scripts if one.kind)


@pytest.mark.parametrize(
    "command",
    [
        *("cd X && bash Y.sh", "cd X; bash Y.sh", "cd -- X\nsh Y.sh", "(cd X && ./Y.sh)", "(cd X; source Y.sh) &"),
        *("pushd X && bash Y.sh && popd", "env -C X bash Y.sh", "env --chdir=X A=b ./Y.sh", "cd X && . ./Y.sh"),
        *("bash -c 'cd X && bash Y.sh'", 'bash -lc "cd X; exec ./Y.sh"', "eval 'cd X'; bash Y.sh", "X/Y.sh a b"),
        *("D=X; bash $D/Y.sh", "export D=X && ${D}/Y.sh", "bash ${UNSET:-X}/Y.sh", "bash $ROOT/Y.sh"),
        *("cd X && nohup nice -n 5 bash -xo pipefail Y.sh --a", 'bash "$(pwd)/X/Y.sh"', "cd X && cat Y.sh | bash"),
        *("cd A && cd ../X && bash Y.sh", "cd X && bash < Y.sh", "tmux new -d 'cd X && bash Y.sh'"),
        *("cd X && srun bash Y.sh", "cd $ROOT && sh Y.sh"),
        *("ray job submit --working-dir X -- bash Y.sh", "su me -c 'cd X && bash Y.sh'", "cd X || exit 1; bash Y.sh"),
        *("if true; then cd X; bash Y.sh; fi", "cd X && timeout -k 5 60 ./Y.sh", "cd X && sbatch --wait Y.sh"),
    ],
)
def test_every_way_to_start_a_script_in_a_directory(command: str) -> None:
    assert "X/Y.sh" in [script.path for script in named_scripts(command, {"ROOT": "X"})]


def test_names_lines_and_what_starts_nothing() -> None:
    command = "bash -x run.sh --a && source env.sh; ./go.sh b.sh; python z.sh; cat q.sh\nexec sub/x.bash; . ./d.sh"
    found = named_scripts(command, line=5)
    assert [(one.name, one.line) for one in found] == [
        *(("run.sh", 5), ("env.sh", 5), ("./go.sh", 5), ("sub/x.bash", 6), ("./d.sh", 6)),
    ]
    assert named_scripts("echo 'bash x.sh'; python -m train --script run.sh # bash y.sh\ncat <<E\nbash z.sh\nE") == ()


def test_a_subshell_and_a_text_leave_the_directory_as_it_was() -> None:
    for command in ("(cd X && ./Y.sh); ./Z.sh", "bash -c 'cd X && ./Y.sh'; ./Z.sh", "pushd X; ./Y.sh; popd; ./Z.sh"):
        assert [script.path for script in named_scripts(command)] == ["X/Y.sh", "Z.sh"]


@pytest.mark.parametrize(
    "command",
    [
        *("ssh h 'cd X && bash /Y.sh'", "cd $U && bash Y.sh", "bash $U/Y.sh", "cd - ; sh Y.sh"),
        "for d in a b; do bash $d/Y.sh; done",
    ],
)
def test_what_nobody_can_know_has_no_path(command: str) -> None:
    (script,) = named_scripts(command)
    assert (script.path, script.must) == ("", False)


@pytest.mark.parametrize(
    ("command", "must"),
    [
        *(("cd X && bash Y.sh", True), ("set -e; export A=b; ./Y.sh", True), ("bash Y.sh || echo no", True)),
        *(("git clone U X && bash X/Y.sh", False), ("echo 'sleep 1' > Y.sh; bash Y.sh", False)),
        ("echo a; bash Y.sh", True),
        *(("[ -f Y.sh ] && bash Y.sh", False), ("test -x Y.sh && ./Y.sh", False), ("true || bash Y.sh", False)),
        *(("if [ -f Y.sh ]; then bash Y.sh; fi", False), ("f() { bash Y.sh; }; f", False), ("if a; then b; fi", None)),
    ],
)
def test_what_has_to_be_there(command: str, must: bool | None) -> None:
    assert [script.must for script in named_scripts(command)] == ([] if must is None else [must])


def test_what_a_prepare_may_make() -> None:
    assert not named_scripts("bash Y.sh", earlier=["python write.py"])[0].must
    assert named_scripts("bash Y.sh", earlier=["export A=b"])[0].must


def test_makefiles() -> None:
    found = named_scripts("make -C X -j4 train && cd Y && make -f a.mk all && make --directory=Z")
    assert [one.path for one in found if one.kind == "make"] == ["X/Makefile", "Y/a.mk", "Y/Z/Makefile"]
    assert recipe_lines("all: x\n\t@pkill $$A\nB = c\n") == "\npkill $A\n\n"


def test_a_script_that_knows_its_own_directory() -> None:
    text = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nsource "$HERE/env.sh"\n. $(dirname "$0")/b.sh\n'

    def open_text(path: str) -> str:
        if path != "/code/X/run.sh":
            raise FileNotFoundError(path)
        return text

    found = read_shell("bash X/run.sh", cwd="/code", open_text=open_text).scripts
    assert [script.path for script in found] == ["/code/X/run.sh", "/code/X/env.sh", "/code/X/b.sh"]
