"""Settings: flags over environment over file over built-in values, each with its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.errors import AutoresearchError
from autoresearch.lab import settings


def test_built_in_values_are_the_documented_ones(tmp_path: Path) -> None:
    found = settings.load(tmp_path, environ={})
    assert found.seconds("first_step_timeout") == 20 * 60
    assert found.seconds("max_time") == 24 * 3600
    assert found.seconds("stall_timeout") is None
    assert {v.source for v in found.values.values()} == {"built-in"}


def test_each_layer_wins_over_the_one_below(tmp_path: Path) -> None:
    (tmp_path / "autoresearch.yaml").write_text("max_time: 3h\ngrace: 5s\nfirst_step_timeout: 1m\n")
    environ = {"AUTORESEARCH_GRACE": "7s", "AUTORESEARCH_FIRST_STEP_TIMEOUT": "2m"}
    found = settings.load(tmp_path, environ=environ, flags={"first_step_timeout": "3m", "max_time": ""})
    assert [
        (found.seconds(n), found.values[n].source.split()[0]) for n in ("max_time", "grace", "first_step_timeout")
    ] == [
        (3 * 3600, str(tmp_path / "autoresearch.yaml")),
        (7, "environment"),
        (180, "flag"),
    ]


def test_a_note_of_the_blueprint_wins_over_the_file_and_loses_to_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "autoresearch.yaml").write_text("trainer: trl\n")
    for environ, typed, note, chosen in (
        ({}, {}, "verl", "verl"),
        ({}, {}, "", "trl"),
        ({"AUTORESEARCH_TRAINER": "slime"}, {}, "verl", "slime"),
        ({}, {"trainer": "slime"}, "verl", "slime"),
    ):
        assert settings.load(tmp_path, environ=environ, flags=typed).chosen("trainer", note) == chosen


def test_the_file_is_found_from_below_but_not_beyond_the_repository(tmp_path: Path) -> None:
    (tmp_path / "autoresearch.yaml").write_text("grace: 9s\n")
    inside = tmp_path / "repo" / "deep"
    inside.mkdir(parents=True)
    assert settings.find_file(inside) == tmp_path / "autoresearch.yaml"
    (tmp_path / "repo" / ".git").mkdir()
    assert settings.find_file(inside) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_tim: 3h\n", "max_tim"),
        ("max_time: soon\n", "max_time"),
        ("- a\n- b\n", "autoresearch.yaml"),
        ("a: [\n", "autoresearch.yaml"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "autoresearch.yaml").write_text(text)
    with pytest.raises(AutoresearchError, match=words) as told:
        settings.load(tmp_path, environ={})
    assert told.value.exit_code == 2


@pytest.mark.parametrize(("word", "told"), [("launchr", "did you mean 'launcher'?"), ("xyz", "launcher, launchers")])
def test_an_unknown_setting_is_told_of_the_nearest_or_of_all(tmp_path: Path, word: str, told: str) -> None:
    (tmp_path / "autoresearch.yaml").write_text(f"{word}: x\n")
    with pytest.raises(AutoresearchError) as unknown:
        settings.load(tmp_path, environ={})
    assert told in unknown.value.hint


def test_the_template_is_valid_once_uncommented(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") for line in settings.template().splitlines()[1:]]
    assert [line.split(":")[0] for line in lines[: len(settings.KEYS)]] == [key.name for key in settings.KEYS]
    (tmp_path / "autoresearch.yaml").write_text(settings.template())
    assert settings.load(tmp_path, environ={}).file == tmp_path / "autoresearch.yaml"
    declared = "\n".join(lines[lines.index("launchers:") :]) + "\n"
    (tmp_path / "autoresearch.yaml").write_text(declared + "launcher: gpu1:2, long\n")
    assert [str(place) for place in settings.load(tmp_path, environ={}).targets()] == ["ssh:gpu1:2", "slurm:long:8"]
