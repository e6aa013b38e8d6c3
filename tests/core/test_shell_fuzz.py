"""Whatever a text and its scripts hold, they are read without an exception, and in a bounded number of steps."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

from autoresearch.core.blueprint.lint import lint_shell
from autoresearch.core.shell import assignments, read_shell

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
