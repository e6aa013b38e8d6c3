"""What commands print at a terminal of 80 columns: no broken word, paths from here, colour only where it is wanted.

Beside it: how to type what the shell would not find.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoresearch.commands import output
from autoresearch.commands.demo import BLUEPRINT
from autoresearch.commands.layout import Whole, from_here, painted, wrapped
from autoresearch.commands.ledger import BRIEF, GO_FIRST, fitted
from autoresearch.records.campaign_records import CampaignDir, write_ledger
from tests.screenshots import Night

COLUMNS = 80
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x07")
COPIED = re.compile(r"\b(?:autoresearch [a-z]|tmux (?:-|attach))|^ +(?:cd|export|bash -c) ")
TOO_LONG = re.compile(r" *(?:\S+(?: \S+)?  +)?\S+")  # a path, and at most its name before it
RANDOM = re.compile(r"_[a-z0-9]{6}\b|\d+(?:\.\d+)?")


def at_terminal(words: list[str], directory: Path, environ: Mapping[str, str], *, typed: str = "") -> str:
    """What a command prints on a terminal of 80 columns, both streams, with the answers that were `typed` ahead."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    argv = [sys.executable, "-m", "autoresearch", *words]
    child = subprocess.Popen(argv, cwd=directory, env=dict(environ), stdin=its, stdout=its, stderr=its)
    os.close(its)
    os.write(ours, typed.encode())
    data = b""
    while True:
        try:
            data += (part := os.read(ours, 65536))
        except OSError as error:
            assert error.errno == errno.EIO  # nobody has it open any more
            break
        if not part:
            break
    os.close(ours)
    assert child.wait(60) in (0, 2, 3, 4, 5), data
    return data.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """The demo's project with one run that is over and a campaign of 24 ideas, and an environment to work in."""
    from autoresearch.commands.demo import demo_project

    home = tmp_path_factory.mktemp("home")
    gone = {"TMUX", "TMUX_PANE", "COLUMNS", "LINES", "NO_COLOR", "CI"}
    environ = {name: value for name, value in os.environ.items() if name not in gone}
    environ |= {"XDG_STATE_HOME": str(home), "AUTORESEARCH_TMUX_SOCKET": str(home / "tmux"), "TERM": "xterm-256color"}
    environ |= {"PYTHONPATH": str(Path(__file__).parents[2]), "LC_ALL": "C.UTF-8"}
    root = demo_project(environ)
    recipe = root / "blueprints/recipes/quickstart.yaml"
    recipe.write_text(re.sub(r"(?m)^(total_steps: )\d+", r"\g<1>30", recipe.read_text()))
    argv = [sys.executable, "-m", "autoresearch", "run", BLUEPRINT]
    done = subprocess.run(argv, cwd=root, env=environ, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    night = root / "night"
    night.mkdir()
    Night(night).run()
    write_ledger(CampaignDir(night))
    yield root, environ
    subprocess.run(["tmux", "-S", environ["AUTORESEARCH_TMUX_SOCKET"], "kill-server"], check=False, capture_output=True)


COMMANDS = """
run blueprints/quickstart.md --dry-run
campaign start blueprints/campaign.md --dry-run
status last
metrics
logs --events
explain
ledger show night/results.tsv
campaign status night --full
report night
compare last last
status
clean
doctor
config schema
blueprint check blueprints/quickstart.md
status of-no-run
"""


@pytest.mark.system
def test_a_terminal_of_80_columns(project: tuple[Path, dict[str, str]]) -> None:
    for line in COMMANDS.strip().splitlines():
        fits(line, *project)


def fits(line: str, root: Path, environ: dict[str, str]) -> None:
    """What a command prints there: no line is longer, unless it is to be copied; no word is another than in a pipe."""
    argv = [sys.executable, "-m", "autoresearch", *line.split()]
    piped = subprocess.run(argv, cwd=root, env=environ, stdin=-3, stdout=-1, stderr=-2, check=False, text=True).stdout
    shown = ANSI.sub("", at_terminal(line.split(), root, environ))
    assert shown.strip(), line
    for one in shown.splitlines():
        assert len(one) <= COLUMNS or COPIED.search(one) or TOO_LONG.fullmatch(one), one
    if not line.startswith("run") and line != "status":  # which name what will be made, or are laid out by width
        words = {RANDOM.sub("0", word) for word in piped.replace(f"{root}/", "").split()}
        ours = {RANDOM.sub("0", word) for word in shown.replace(f"{root}/", "").split() if "…" not in word}
        assert not {word for word in ours - words if len(word) > 2}
    assert "{'" not in shown and f"{root}/" not in shown.replace(f"{root}/ ", "")


@pytest.mark.system
def test_colour_says_how_it_went_and_only_at_a_terminal(project: tuple[Path, dict[str, str]]) -> None:
    root, environ = project
    for words in (["ledger", "show", "night/results.tsv"], ["campaign", "status", "night"], ["status", "last"]):
        assert "\x1b[32m" in at_terminal(words, root, environ), words
        assert "\x1b" not in at_terminal(words, root, {**environ, "NO_COLOR": "1"})
        assert "\x1b" not in at_terminal([*words, "--json"], root, environ)


def test_lines_end_between_words_and_go_on_below_their_text() -> None:
    assert wrapped("short", 20) == "short"
    assert wrapped("one two three four five", 12) == "one two\n  three four\n  five"
    assert wrapped("name  a text that is long", 18) == "name  a text that\n      is long"
    assert wrapped("  | a log line that is long", 14) == "  | a log line\n  |   that is\n  |   long"
    assert wrapped("  - a point that is long", 14) == "  - a point\n    that is\n    long"
    long = "/a/path/that/is/longer/than/the/terminal/is/wide"
    assert wrapped(f"results: {long}", 20) == f"results:\n  {long}"


def test_commands_stay_whole() -> None:
    command = "autoresearch campaign status 20261121-grpo-math --full"
    assert wrapped(f"next: {command}", 30) == f"next: {command}"
    assert wrapped(f"it runs; {command}", 30) == f"it runs;\n  {command}"
    assert wrapped("say `campaign set confirm_runs=24` to allow more", 26) == (
        "say\n  `campaign set confirm_runs=24`\n  to allow more"
    )


def test_paths_are_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_here(f"log: {tmp_path}/runs/run.log") == "log: runs/run.log"
    for same in (f"in {tmp_path}", f"PATH=/bin:{tmp_path}/bin", f"file://{tmp_path}/x", f"{tmp_path}-2/x"):
        assert from_here(same) == same


def test_what_is_coloured_is_a_field() -> None:
    assert painted("best: #3 lr=0.1: confirmed, 0.2") == "best: #3 lr=0.1: \x1b[32mconfirmed\x1b[0m, 0.2"
    assert painted("17  crash  x") == "17  \x1b[31mcrash\x1b[0m  x"
    assert painted("warning: 2 columns") == "\x1b[33mwarning\x1b[0m: 2 columns"
    for same in ("we keep it", "checkpoints: keep at most 3", "no crash", "kept apart"):
        assert painted(same) == same


def test_what_is_to_be_copied_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = f"export PYTHONPATH={tmp_path}/a {tmp_path}/b"
    output.prose(Whole(line))
    assert capsys.readouterr().out == line + "\n"


# ------------------------------------------------------------------------------------------ a ledger

ROWS = [
    ["1", "baseline-1-000001", "keep", "finished", "task_pass_rate@1", "0.500000", "5.00", "Change nothing " * 4],
    ["12", "a-name-of-some-length-7k2m9x", "crash", "first_step_timeout", "task_pass_rate@1", "", "20.1", "試す " * 9],
]


@pytest.mark.parametrize("width", [50, 60, 80, 120, 200])
def test_no_line_is_folded(width: int) -> None:
    from rich.cells import cell_len

    lines = fitted(BRIEF, ROWS, width)
    assert max(map(cell_len, lines)) <= width
    assert lines[0].split()[:2] == ["index", "run_id"] and "description" in lines[0][:width]
    assert lines[2].split()[0] == "12" and "7k2m9x" in lines[2]  # what makes it one is never cut off


def test_columns_go_in_an_order_and_the_metric_is_told_once() -> None:
    at = {width: fitted(BRIEF, ROWS, width)[0].split() for width in range(50, 220)}
    gone = [len(set(BRIEF) - set(names)) for names in at.values()]
    assert gone == sorted(gone, reverse=True)
    assert at[219] == list(BRIEF) and "metric_name" not in at[80] and {"status", "metric_value"} <= set(at[80])
    assert set(BRIEF) - set(at[50]) <= set(GO_FIRST)
    assert fitted(BRIEF, ROWS, 80)[-1] == "metric_value is task_pass_rate@1"
    assert fitted(BRIEF, ROWS, 200)[-1].startswith("12 ")


# ------------------------------------------------------------------------------------------ beside the answer

@pytest.mark.parametrize(
    ("where", "on_path", "advice"), [("venv", True, False), ("venv", False, True), ("cache/archive", True, True)]
)
def test_how_to_type_what_the_shell_would_not_find(
    where: str,
    on_path: bool,
    advice: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """uvx puts the environment in its cache on the PATH of the one process that it starts."""
    program = tmp_path / where / "bin" / "autoresearch"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "CACHEDIR.TAG").touch()
    (program.parent.parent / "CACHEDIR.TAG").touch()  # as `uv venv` does
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", f"{program.parent if on_path else ''}:/usr/bin:/bin")
    output.remark_path()
    assert (f"export PATH={program.parent}:" in capsys.readouterr().err) is advice
