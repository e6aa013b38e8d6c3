"""One reading of a shell text: words, variables, outputs, scripts, what stays unknown, and whatever a text may hold."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

from autoresearch.core.blueprint.lint import lint_shell
from autoresearch.core.shell import assignments, no_file, read_shell, simple_commands


def run(text: str, *arguments: str, **variables: str) -> list[list[str]]:
    """The words of each `run` of a script with these arguments."""
    reading = read_shell(
        f"bash s.sh {' '.join(arguments)}",
        variables,
        cwd="/code",
        open_text=lambda path: text if path == "/code/s.sh" else no_file(path),
    )
    return [one.argv[1:] for one in reading.commands if one.name == "run"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run a 'b c' \"d\\\"e\" f\\ g h''i", ["a", "b c", 'd"e', "f g", "hi"]),
        ("A=1; run $A ${A} \"$A\" '$A' x$A.y \\$A", ["1", "1", "1", "$A", "x1.y", "$A"]),
        ("run ${A:-b} ${A:-\"c d\"} ${HOME:-no} ~/x", ["b", "c d", "/home/me", "/home/me/x"]),
        ("A=(--lr 1 # no\n --b \"x y\" ); A+=(--c); run ${A[@]}", ["--lr", "1", "--b", "x y", "--c"]),
        ("B=x; run $1 \"$@\" ${3:-$B}", ["one", "one", "two", "x"]),
        ("D=\"$(cd \"$(dirname \"$0\")/..\" && pwd)\"; run $D $(dirname -- \"${BASH_SOURCE[0]}\")", ["/", "/code"]),
        ("run $(pwd) $PWD", ["/code", "/code"]),
        ("read -r -d '' T <<EOF\na.b \\\n --c $1\nEOF\nrun $T", ["a.b", "--c", "one"]),
        ("export A=b; bash -c 'run $A $1' x y", ["b", "y"]),
        ("A=b; bash -c \"run $A\"", ["b"]),
        ("A=b bash -c 'run $A'", ["b"]),
        ("A=b; eval \"run $A\"", ["b"]),
        ("case $1 in\n a|b) A=1;;\n *) run x;;\nesac; run y", ["x"]),
        ("run a{b,c} *.py $'a' <<< x # no", ["a{b,c}", "*.py", "a"]),
    ],
)  # fmt: skip
def test_words(text: str, words: list[str]) -> None:
    assert run(text, "one", "two", HOME="/home/me")[0] == words


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("A=$U/a; run $A/b", "$U/a/b"),
        ("A=$(nvidia-smi | wc -l); run $A", "$(nvidia-smi | wc -l)"),
        ("if grep x y; then A=1; else A=2; fi; run $A", "$A"),
        ("for A in 1 2; do run $A; done", "$A"),
        ("run ${A//[a-z]*/b}", "${A//[a-z]*/b}"),
        ("case $1 in a) A=x;; *) A=y;; esac; run $A", "$A"),
        ('[ -z "$A" ] && A=x; run $A', "$A"),
        ("N=$((8 - 1)); run $N", "$((8 - 1))"),
        ("A=1; read A; run $A", "$A"),
        ("A=1; (A=2); run $A", "$A"),
        ("f() { A=1; }; run ${A:-2}", "${A:-2}"),
        ("A=(a); if b; then A+=(c); fi; run ${A[@]}", "${A[@]}"),
        ("shift; run $1 $@", "$1 $@"),
        ("set -- a b; run $2", "$2"),
    ],
)
def test_what_is_unknown_stays_as_it_is_written(text: str, word: str) -> None:
    assert " ".join(run(text)[0]) == word


@pytest.mark.parametrize(
    ("text", "output"),
    [
        *(("run > a 2>&1", "a"), ("run >> $L/a", "x/a"), ("run &> a", "a"), ("bash -c 'run' > a", "a")),
        *(("run 2> a", ""), ("run > >(tee a)", ""), ("run 2>&1 | tee a", ""), ("run 1>&2", "")),
    ],
)
def test_where_the_output_goes(text: str, output: str) -> None:
    (simple,) = [one for one in read_shell(text, {"L": "x"}).commands if one.name == "run"]
    assert simple.output == output


def scripts(text: str, variables: Mapping[str, str] | None = None) -> list[str]:
    """The scripts that a text starts, of which each is there."""
    return [one.path for one in read_shell(text, variables, open_text=lambda path: "#").scripts]


@pytest.mark.parametrize(
    "command",
    [
        *("cd X && bash Y.sh", "cd X; bash Y.sh", "cd -- X\nsh Y.sh", "(cd X && ./Y.sh)", "(cd X; source Y.sh) &"),
        *("pushd X && bash Y.sh && popd", "cd X && . ./Y.sh"),
        *("bash -c 'cd X && bash Y.sh'", 'bash -lc "cd X; exec ./Y.sh"', "X/Y.sh a b"),
        *("D=X; bash $D/Y.sh", "export D=X && ${D}/Y.sh", "bash ${UNSET:-X}/Y.sh", "bash $ROOT/Y.sh"),
        *("cd X && nohup nice -n 5 bash -xo pipefail Y.sh --a", 'bash "$(pwd)/X/Y.sh"', "cd $ROOT && sh Y.sh"),
        *("cd A && cd ../X && bash Y.sh", "cd X && srun bash Y.sh"),
        *("bash X/Y.sh a", "cd X || exit 1; bash Y.sh", "cd X && timeout -k 5 60 ./Y.sh", "cd X && sbatch --wait Y.sh"),
    ],
)
def test_every_way_to_start_a_script_in_a_directory(command: str) -> None:
    assert scripts(command, {"ROOT": "X"}) == ["X/Y.sh"]


def test_a_subshell_and_a_text_leave_the_directory_as_it_was() -> None:
    for command in ("(cd X && ./Y.sh); ./Z.sh", "bash -c 'cd X && ./Y.sh'; ./Z.sh"):
        assert scripts(command) == ["X/Y.sh", "Z.sh"]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ssh h 'cd /X && bash Y.sh'",
            "docker run i bash Y.sh",
            "cd $U && bash Y.sh",
            "bash $U/Y.sh",
            "cd - ; sh Y.sh",
        ),
        *("for d in a b; do bash $d/Y.sh; done", "echo 'bash x.sh' # bash y.sh\ncat <<E\nbash z.sh\nE"),
    ],
)
def test_what_nobody_can_know_is_not_read(command: str) -> None:
    assert scripts(command) == []


def test_a_loop_of_scripts_is_read_once() -> None:
    loop = {"/c/a.sh": "bash b.sh; . a.sh", "/c/b.sh": "bash a.sh"}
    assert len(read_shell("bash a.sh", cwd="/c", open_text=loop.__getitem__).scripts) == 2


def test_lines_follow_quotes_continuations_and_here_documents() -> None:
    text = "cat <<'A'\nx\n\ny\nA\necho 'a\nb' \\\n  c\n\npkill x\n"
    assert [(c.line, c.words[0]) for c in simple_commands(text)] == [(1, "cat"), (6, "echo"), (10, "pkill")]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("exec $PY train.py", "$PY"),
        ("nohup ./launch --script train.py", "launch"),
        ("uv run --frozen --extra vllm axolotl train x.yaml", "axolotl"),
        ("srun --partition gpu python x", "python"),
        ("uv run -m pkg.mod a.b=c", "python"),
    ],
)
def test_the_program_behind_a_wrapper(text: str, program: str) -> None:
    assert simple_commands(text)[0].name == program


def test_what_is_no_program_is_not_taken_for_the_training() -> None:
    text = "f() { python t.py; }\nif [[ -f x && -f y ]]; then (( n++ )); fi\n"
    text += "case $A in a) cd x;; esac; for i in 1; do :; done"
    assert [one.text for one in simple_commands(text) if one.may_train] == ["python t.py"]


def test_words_without_wrappers_and_offsets_in_any_script() -> None:
    (command,) = simple_commands("""A='x y' sudo -n /bin/p"k"ill "a\\"b $c" d\\ e 'f''g'""")
    assert command.words == ["A=x y", "sudo", "-n", "/bin/pkill", 'a"b $c', "d e", "fg"]
    assert (command.name, command.argv[1:], command.environment) == ("pkill", ['a"b $c', "d e", "fg"], {"A": "x y"})
    text = "run '训练 à' 🚀$A; echo '\U000704a3{'; A=é run x  # ê\n"
    first = read_shell(text, {"A": "1"}).commands[0]
    assert text[first.raw[0].start : first.raw[-1].stop] == "run '训练 à' 🚀$A"
    assert first.argv == ["run", "训练 à", "🚀1"]
    (_, nested) = read_shell("bash -c 'run --lr  3'").commands
    assert [(one.text, one.start) for one in nested.raw] == [("run", 9), ("--lr", 13), ("3", 19)]


set_hypothesis_home_dir(Path(__file__).parents[2] / ".pytest_cache/hypothesis")

MOST_CALLS = 1_000_000  # of Python functions, in all; a script of 200 lines takes 20,000
FRAGMENTS = (
    "A=1", "A=$A", "A=$A$A", "A+=x", "A=($A \"$@\")", "A+=(\"${A[@]}\")", "export A=$A", "A[1]=2", "unset A",
    "local A=$B", "$((A+1))", "$((A*A))", "$((1/0))", "$((010))", "${A:-$B}", "${A##*/}", "${A%%*.*}", "${A/a/b}",
    "${#A}", "${!A}", "${A[0]}", "${A[$B]}", "${A[@]:1}", "${A^^}", "$1", "$@", "\"$*\"", "$#", "$0", "$PWD",
    "${BASH_SOURCE[0]}", "~/x", "(", ")", "{ ", "}", "$(", "`", "((", "))", "$((", "[[ ", " ]]", "[ ", " ]", "<(",
    ">(", "'", '"', "\\", "\\\n", "$'", " && ", " || ", " | ", " |& ", " & ", "; ", "\n", " ! ", " > x", " 2>&1",
    " < a.sh", " >> $A", " <<< $A", "<<E\n", "\nE\n", "if ", "then ", "elif ", "else ", "fi", "for A in ", "while ",
    "do ", "done", "case $A in a) ", ";; ", "*) ", "esac", "f() { ", "g() { f; }", "f", "g", "f $A", "eval ",
    "eval \"$A\"", "eval f", "bash -c 'f' ", "bash a.sh", ". b.sh", "source a.sh $A", "bash < a.sh",
    "cat a.sh | bash", "python x.py --lr $A", "cd $A", "cd d", "pushd d", "popd", "set -- $@ $@", "shift", "read A",
    "ssh h 'f'", "sudo env A=1 ", "uv run ", "srun ", "sbatch x.sub", "ray job submit -- ", "docker run x a b ",
    "$(dirname $0)", "$(cd x && pwd)", "true", "# no", "pkill x", "é", "\0", "a b",
)  # fmt: skip


def deep(start: str, end: str = "", depth: int = 1000) -> str:
    """One in another."""
    return start * depth + "a" + end * depth


NASTY = (
    "((" * 5000, "(" * 10_000, deep("(", ")", 10_000), deep("$(", ")", 5000), deep("`", "`"), deep("{ ", "; }"),
    deep("[[ (", ") ]]"), deep("${A:-", "}"), deep("\"$(", ")\""), deep("if a; then ", "; fi"),
    deep("case a in a) ", ";; esac"), deep("<(", ")"), deep("f() { ", "; }"), deep("a && "), deep("a | "),
    deep("a=("), deep("! "), deep("$((", "))"), deep("x=$((1+", "))"), deep("srun "),
    "if a; then b; " + "elif a; then b; " * 1000 + "else c; fi", "cat <<E\n" + deep("$(", ")") + "\nE\n",
    deep("cat <<E $(", "\n"), "a" * 100_000, "run " + "$A " * 2000, "A=1 " * 2000 + "run", "a;" * 2000,
    "a\n" * 2000, "x" + " " * 100_000 + "y", "A=x\n" + "A=$A$A\n" * 200 + "run $A",
    "A=(x)\n" + 'A+=("${A[@]}")\n' * 100, "set -- a\n" + "set -- $@ $@\n" * 100,
    "A=abcde\n" + "A=$A$A\n" * 15 + "run ${A%%*b*c*d*f} ${A##*b*c*d*f}",
    "A='eval \"$A\"'; eval \"$A\"",
    "bash a.sh; " * 500, "eval " * 200 + "a", "bash -c 'bash -c \"" * 100, "python x.py; " * 500,
    ". a.sh; . b.sh; bash a.sh; bash b.sh", "run $((" + "(" * 200 + "1" + ")" * 200 + "))",
    "'\"" * 5000, "\"$(" * 5000, "${A" * 5000, "a=(" * 5000, "<<E\n" * 3000, "[[ " * 5000, "case a in " * 3000,
    "A=(x)\n" + "run " + '"${A[@]}${A[@]}"' * 2000,
)  # fmt: skip


def read(text: str) -> None:
    """Read a text whose scripts all hold the same text."""

    def open_text(path: str) -> str:
        if path.endswith("c.sh"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return text

    lint_shell(read_shell(text, {"B": "b", "HOME": "/h"}, cwd="/c", open_text=open_text), where="x")
    list(assignments(text))


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_what_is_nasty_on_purpose(text: str) -> None:
    read(text)


PARTS = st.lists(st.sampled_from(FRAGMENTS) | st.characters(), max_size=40)


@settings(derandomize=True, deadline=None, max_examples=40, database=None)
@given(st.builds(str.join, st.sampled_from(("", " ")), PARTS))
def test_any_text(text: str) -> None:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read(text)
    finally:
        sys.setprofile(before)
    assert calls < MOST_CALLS
