"""One reading of a shell text: words, variables, branches, functions, outputs, and what is said to be unknown."""

from __future__ import annotations

import pytest

from autoresearch.core.shell.reading import read_shell, simple_commands


def run(text: str, *arguments: str, **variables: str) -> list[list[str]]:
    """The words of each `run` that may be run, of a script with these arguments."""

    def open_text(path: str) -> str:
        if path != "/code/s.sh":
            raise FileNotFoundError(2, "No such file or directory", path)
        return text

    reading = read_shell(f"bash s.sh {' '.join(arguments)}", variables, cwd="/code", open_text=open_text)
    return [one.argv[1:] for one in reading.commands if one.name == "run" and one.live]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run a 'b c' \"d\\\"e\" f\\ g h''i", ["a", "b c", 'd"e', "f g", "hi"]),
        ("A=1; run $A ${A} \"$A\" '$A' x$A.y", ["1", "1", "1", "$A", "x1.y"]),
        ("A='x y'; run $A \"$A\"", ["x", "y", "x y"]),
        ("run ${A:-b} ${A:-\"c d\"} ${HOME:-no}", ["b", "c", "d", "/home/me"]),
        ("B=x; run ${A:=$B} $A ${B:+y} ${A:+}z", ["x", "x", "y", "z"]),
        ("A=(--lr 1 # no\n --b \"x y\" ); A+=(--c); run ${A[@]}", ["--lr", "1", "--b", "x", "y", "--c"]),
        ("A=(a 'b c'); run \"${A[@]}\" \"x${A[1]}\" ${#A[@]}", ["a", "b c", "xb c", "2"]),
        ("A=(); run x \"${A[@]}\" y \"\" ", ["x", "y", ""]),
        ("run $1 \"$@\" $# ${3:-no} ${@:2}", ["one", "one", "two", "2", "no", "two"]),
        ("shift; run $@; run", ["two"]),
        ("set -- a b; run $2", ["b"]),
        ("N=4; run $((N * 2 + 1)) $((1024*1024)) $(( (N - 1) / 2 ))", ["9", "1048576", "1"]),
        ("N=${N:-$((8 - 1))}; run $N", ["7"]),
        ("F=/a/b.tar.gz; run ${F##*/} ${F%.gz} ${F%%.*}", ["b.tar.gz", "/a/b.tar", "/a/b"]),
        ("F=/a/b.tgz; run ${F/b/c} ${F#/a/} ${F^^}", ["/a/c.tgz", "b.tgz", "/A/B.TGZ"]),
        ("run $(dirname /a/b/c) $(basename /a/b.sh .sh) $(cd x && pwd) $(echo y)", ["/a/b", "b", "/code/x", "y"]),
        ("run $(basename $0 .sh) $(realpath x/../y) $PWD", ["s", "/code/y", "/code"]),
        ("N=a-tq_x; run $(echo \"$N\" | sed -E 's/-tq_(x|y)$//')", ["a"]),
        ("run $(echo a.b | sed 's/a.*/c/')", ["$(echo a.b | sed 's/a.*/c/')"]),
        ("C=$(echo /t/a.yaml | sed 's#/t#/u#'); run $C", ["/u/a.yaml"]),
        ("read -r -d '' T <<EOF\na.b \\\n --c $1\nEOF\nrun $T", ["a.b", "--c", "one"]),
        ("read -r T <<'EOF'\n$1\nEOF\nrun $T", ["$1"]),
        ("export A=b; bash -c 'run $A $1' x y", ["b", "y"]),
        ("A=b; bash -c \"run $A\"", ["b"]),
        ("A=b; bash -c 'run ${A:-c}'", ["c"]),  # not exported
        ("A=b bash -c 'run $A'", ["b"]),
        ("f() { local A=$1; run $A; }; f x", ["x"]),
        ("A=b; eval \"run $A\"", ["b"]),
        ("if a; then A=x; elif b; then A=x; else A=x; fi; run $A", ["x"]),
        ("A=x; if [ $# -lt 2 ]; then A=y; exit 1; fi; run $A - <<E\nE", ["x", "-"]),
        ("for i in x; do run $i; done", ["x"]),
        ("printf -v A x; run a{b,c} *.py $'a\\tb'", ["a{b,c}", "*.py", "a\tb"]),
    ],
)  # fmt: skip
def test_words(text: str, words: list[str]) -> None:
    assert run(text, "one", "two", HOME="/home/me")[0] == words


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("run $A", "$A"),
        ("A=$U/a; run $A/b", "$U/a/b"),
        ("A=$(nvidia-smi | wc -l); run $A", "$(nvidia-smi | wc -l)"),
        ("if grep x y; then A=1; else A=2; fi; run $A", "$A"),
        ("for A in 1 2; do run $A; done", "$A"),
        ("run ${A//[a-z]*/b}", "${A//[a-z]*/b}"),
        ("run ${!A}", "${!A}"),
        ('if [ "$1" = x ]; then A=x; else A=y; fi; run $A', "$A"),
        ("case $1 in a) A=x;; *) A=y;; esac; run $A", "$A"),
        ('[ -z "$A" ] && A=x; run $A', "$A"),
        ("run $((A * 2))", "$((A * 2))"),
        ("export A=$A; run $((A+1))", "$((A+1))"),
        ("A=B; B=A; run $((A))", "$((A))"),
        ("A=(a); run ${A[-5]} ", "${A[-5]}"),
        ("run $((1/0))", "$((1/0))"),
    ],
)
def test_what_is_unknown_stays_as_it_is_written(text: str, word: str) -> None:
    assert run(text)[0] == [word]


def test_a_branch_that_adds_to_an_array_leaves_the_rest_known() -> None:
    (words,) = run("A=(a b)\nif nvidia-smi; then A+=(c); fi\nrun ${A[@]}")
    assert words[:2] == ["a", "b"] and words[2:] == ["${A[@]}"]


def test_what_is_not_run_is_read_but_not_taken_for_it() -> None:
    text = "if false; then run a; fi; f() { run b; }; [ x = y ] && run c; run d; case x in y) run e;; esac"
    assert run(text) == [["a"], ["c"], ["d"], ["e"]], "nobody calls f; which branch is taken is known only then"
    assert sum(one.name == "run" for one in read_shell(text).commands) == 5
    assert run('if [ -n "$A" ]; then exit 1; fi; run $A', A="x") == [["x"]]  # said, whatever comes before it


@pytest.mark.parametrize(
    ("text", "outputs", "pipefail"),
    [
        ("run > a 2>&1", ("a",), False),
        ("run >> $L/a", ("x/a",), False),
        ("run &> a", ("a",), False),
        ("run 2> a", (), False),
        ("run > >(tee a)", (), False),
        ("run 2>&1 | tee a > /dev/null", ("/dev/null",), False),
        ("run 1>&2", (), False),
        ("{ cd x; run; } > a", ("a",), False),
        ("(run) > a", ("a",), False),
        ("exec > a 2>&1\nrun", ("a",), False),
        ("bash -c 'run' > a", ("a",), False),
        ("set -euo pipefail; run", (), True),
        ("set -o pipefail; set +o pipefail; run", (), False),
        ("bash -o pipefail -c run", (), True),
    ],
)
def test_where_the_output_goes(text: str, outputs: tuple[str, ...], pipefail: bool) -> None:
    (simple,) = [one for one in read_shell(text, {"L": "x"}).commands if one.name == "run"]
    assert (simple.outputs, simple.pipefail) == (outputs, pipefail)


def test_a_loop_of_scripts_or_functions_is_read_once() -> None:
    loop = {"/c/a.sh": "bash b.sh; . a.sh", "/c/b.sh": "bash a.sh"}
    assert len(read_shell("bash a.sh", cwd="/c", open_text=loop.__getitem__).scripts) == 2
    assert read_shell("f() { g; g; }; g() { f; f; }; f").scripts == ()


def test_what_is_not_followed_to_its_end_is_said() -> None:
    def why(text: str) -> list[tuple[str, str]]:
        reading = read_shell(text, cwd="/c", open_text={"/c/s.sh": "$(" * 300 + ")" * 300}.__getitem__)
        return [(one.name, one.why) for one in reading.scripts if one.text is None]

    assert why("(" * 300 + "pkill x" + ")" * 300) == [("the command", "it is nested too deeply")]
    calls = "f0() { :; }\n" + "".join(f"f{n}() {{ f{n - 1}; f{n - 1}; }}\n" for n in range(1, 30)) + "f29"
    assert why(calls) == [("the command", "it is too long, or calls itself too often")]
    assert why("bash s.sh") == [("s.sh", "it is nested too deeply")]
    assert simple_commands("(" * 300 + "pkill x" + ")" * 300)[-1].argv == ["pkill", "x"]


def test_characters_of_any_script() -> None:
    text = "run '训练 à' 🚀$A; echo '\U000704a3{'; A=é run x  # ê\n\u3000run"
    assert run(text, A="1") == [["训练 à", "🚀1"], ["x"]]
    (first, *_) = read_shell(text).commands
    assert text[first.start : first.stop] == "run '训练 à' 🚀$A"


def test_the_targets_of_a_makefile() -> None:
    makefile = "P = python3\nall: train\ntrain: data\n\tcd src && $(P) train.py --lr $(LR)\n"
    makefile += "data:\n\t@echo\nclean:\n\tpkill x\n"

    def open_text(path: str) -> str:
        if path != "/c/Makefile":
            raise FileNotFoundError(2, "No such file or directory", path)
        return makefile

    def found(command: str) -> list[tuple[str, str | None, int]]:
        commands = read_shell(command, cwd="/c", open_text=open_text).commands
        return [(one.text, one.cwd, one.line) for one in commands if one.where == "Makefile" and one.name != "cd"]

    trains = ("python3 train.py --lr 0.1", "/c/src", 4)
    assert found("make train LR=0.1") == [trains, ("echo", "/c", 6)]
    assert ("pkill x", "/c", 8) in found("make LR=0.1")
