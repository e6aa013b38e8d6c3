"""What a campaign is to be: flags over file over blueprint over built-in, each value with its source."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.campaign_keys import DEFAULTS, read_campaign_file

NOW = 1_800_000_000.0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "blueprints").mkdir()
    (tmp_path / "exp.md").write_text("# E\n\n## [exp_launch_command]\n")
    return tmp_path


def declared(place: Path, text: str, **flags: Any) -> Any:
    (place / "campaign.yaml").write_text("blueprint: exp.md\n" + text)
    return read_campaign_file("campaign.yaml", flags, start=place, now=NOW)


def test_flags_over_file_over_built_in(place: Path) -> None:
    found = declared(place, "count: 24\nparallel: 2\ndeadline: 10h\n", count=5, metric="", include=["data"])
    assert (found["count"], found["parallel"], found["baseline"]) == (5, 2, DEFAULTS["baseline"])
    assert found["deadline"] == NOW + 36000
    assert found.sources["count"] == "flag --count" and found.sources["parallel"].endswith("campaign.yaml")
    assert not found.is_set("baseline") and not found.is_set("metric")
    assert found["include"] == ["data"] and found.blueprint == place / "exp.md"


def test_pairs_are_laid_over_the_file(place: Path) -> None:
    (place / "campaign.yaml").write_text("blueprint: exp.md\ncount: 24\nscreen: 5m\nqueue: ideas\n")

    def found(*pairs: str, **flags: Any) -> Any:
        return read_campaign_file("campaign.yaml", flags, start=place, now=NOW, pairs=pairs)

    one = found("screen=null", "guard=pytest -q", "queue=mine", parallel=2)
    assert (one["count"], one["screen"], one["guard"], one["parallel"]) == (24, None, ["pytest -q"], 2)
    assert one["queue"] == str(place / "mine")  # as a flag: seen from where it was typed
    assert one.sources["guard"] == "flag --set" and not one.is_set("screen")
    for pairs, flags, says in (
        (("count=3",), {"count": 3}, "count is given twice: --count and --set count="),
        (("baseline=0",), {}, "flag --set: baseline: 0 is not a whole number of at least 1"),
        (("queue=[{slug: a}]",), {}, "a list of ideas must be in a file"),
    ):
        with pytest.raises(UsageError, match=says):
            found("retests=3", *pairs, **flags)


def test_several_agents_and_what_is_said_of_each(place: Path) -> None:
    models = "agent_model: {codex: gpt-5}\nagent_args: {claude: -v}\n"
    spec = declared(place, f"agent: [claude, codex]\n{models}").agent
    claude, codex = (spec.of(name) for name in spec.agents)
    assert (claude.agent, claude.model, claude.extra) == ("claude", "", ("-v",))
    assert (codex.agent, codex.model, codex.extra) == ("codex", "gpt-5", ())
    typed = ["agent_model={codex: gpt-5}", "agent_args={claude: -v}"]
    assert read_campaign_file("campaign.yaml", {}, start=place, now=NOW, pairs=typed).agent.own == spec.own
    assert declared(place, "agent_model: opus\n", agent="claude, codex,claude").agent.of("codex").model == "opus"
    assert declared(place, "count: 3\n").agent.agents == ()
    with pytest.raises(UsageError, match="agent_model names 'codx', which is no agent of this campaign") as caught:
        declared(place, "agent: [claude, codex]\nagent_model: {codx: gpt-5}\n").agent  # noqa: B018 - it is read
    assert caught.value.hint == "its agents: claude, codex"


def test_half_past_ten_in_a_file_is_no_number_of_seconds(place: Path) -> None:
    for text, minute in (("22:30", 30), ("10:05", 5), ("06:00", 0)):
        at = time.localtime(declared(place, f"deadline: {text}\n")["deadline"])
        assert (at.tm_hour, at.tm_min) == (int(text[:2]), minute)


def test_paths_are_seen_from_where_they_were_written(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub" / "campaign.yaml").write_text("blueprint: ../exp.md\nqueue: ideas\nspace: space.yaml\n")
    (place / "sub" / "space.yaml").write_text("lr: [1, 2]\n")
    found = read_campaign_file("sub/campaign.yaml", {}, start=place, now=NOW)
    assert (found["queue"], found["space"]) == (str(place / "sub" / "ideas"), {"lr": [1, 2]})
    flagged = read_campaign_file("sub/campaign.yaml", {"queue": "ideas"}, start=place, now=NOW)
    assert flagged["queue"] == str(place / "ideas")


def test_the_only_file_is_found_and_several_are_named(place: Path) -> None:
    assert read_campaign_file("", {}, start=place, now=NOW).blueprint == place / "exp.md"
    (place / "blueprints" / "fast-campaign.yaml").write_text("blueprint: ../exp.md\n")
    assert read_campaign_file("", {}, start=place, now=NOW).path == place / "blueprints" / "fast-campaign.yaml"
    (place / "blueprints" / "slow-campaign.yaml").write_text("blueprint: ../exp.md\n")
    with pytest.raises(UsageError, match=r"several would do: blueprints/.*-campaign.yaml"):
        read_campaign_file("", {}, start=place, now=NOW)
    (place / "blueprints" / "campaign.yaml").write_text("blueprint: ../exp.md\n")
    assert read_campaign_file("", {}, start=place, now=NOW).path == place / "blueprints" / "campaign.yaml"


def test_an_unknown_key_has_a_neighbour(place: Path) -> None:
    with pytest.raises(UsageError) as caught:
        declared(place, "dead_line: 3h\n")
    assert "unknown key 'dead_line'" in caught.value.message and "did you mean 'deadline'?" in caught.value.hint
    assert declared(place, "n_trials: 8\nsearch_space: {lr: [1, 2]}\n")["count"] == 8
    with pytest.raises(UsageError, match="unknown key 'n_trials'"):
        declared(place, "n_trials: 8\ncount: 9\n")


@pytest.mark.parametrize("word", ["off", "Off", "OFF", "false", "no", '"off"'])
def test_words_that_yaml_takes_for_truth_values(place: Path, word: str) -> None:
    if word not in ("false", "no"):
        assert declared(place, f"sandbox: {word}\n".replace("Off", "off").replace("OFF", "off"))["sandbox"] == "off"
    found = declared(place, f"confirm: {word}\ngpu_check: {word}\nreview: {word}\n")
    assert [found[key] for key in ("confirm", "gpu_check", "review")] == [False, False, False]


@pytest.mark.parametrize("word", ["on", "yes", "true", "Yes", '"on"', '"yes"'])
def test_words_for_true(place: Path, word: str) -> None:
    found = declared(place, f"confirm: {word}\ngpu_check: {word}\n")
    assert (found["confirm"], found["gpu_check"]) == (True, True)
    with pytest.raises(UsageError, match="sandbox"):
        declared(place, f"sandbox: {word}\n")
