"""What `--help` prints, for every command that people see; and what a shell is told to complete."""

from __future__ import annotations

import pytest

from autoresearch import cli

SHOWN = [name.split() for name in cli.COMMANDS if name not in cli.CALLED_BY_US]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert cli.run(list(argv)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", [[], *SHOWN], ids=" ".join)
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, *command, "--help")
    assert printed(capsys, *command, "-h") == page
    assert max(map(len, page.splitlines())) <= 80
    _, _, below = page.partition("\n\n")  # the first paragraph is the usage
    assert not [line for line in below.splitlines() if line.endswith("...") and "{" not in line and "slurm" not in line]
    assert "default: -" not in page and "default: 0" not in page


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for group in ("", "campaign"):
        page = printed(capsys, *group.split(), "--help")
        for name in cli.verbs_of(group):
            ours = f"{group} {name}".strip() in cli.CALLED_BY_US
            assert (f"\n  {name} " in page) == (not ours), name


@pytest.mark.parametrize(("typed", "word", "expected"), [("cam", 1, "campaign"), ("logs --ev", 2, "--events")])
def test_completion(
    typed: str, word: int, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cli.COMPLETES, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"autoresearch {typed}")
    monkeypatch.setenv("COMP_CWORD", str(word))
    with pytest.raises(SystemExit):
        cli.run([])
    assert capsys.readouterr().out.split() == [expected]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("kill", "last"), "autoresearch stop last"),
        (("ls",), "autoresearch status"),
        (("start", "a.md"), "autoresearch run a.md"),
        (("campaign", "kill", "night"), "autoresearch campaign stop night"),
        (("stauts", "last"), "autoresearch status last"),
        (("resume", "night"), "autoresearch campaign resume night"),
    ],
)
def test_a_word_of_other_programs_names_our_verb(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(list(words)) == 2
    told = capsys.readouterr().err
    assert "Did you mean" in told and f"type: {line}\n" in told
