"""[exp_max_time]: both limits by their labels, never the first duration found."""

from __future__ import annotations

import pytest

from autoresearch.core.blueprint.parser import BlueprintInvalid, parse_blueprint

H, M = 3600.0, 60.0
DEFAULT = (24 * H, 20 * M)


def limits(section: str) -> tuple[float, float]:
    text = f"## [exp_launch_command]\n- command: python x\n\n## [exp_max_time]\n{section}\n"
    b = parse_blueprint(text.encode(), "b.md")
    return b.max_time_s, b.first_step_s


@pytest.mark.parametrize(
    "section",
    [
        "12 hours in all, 40 minutes to the first step",
        "40 minutes to the first step, 12 hours in all",
        "First step: 40 min\nTotal: 12 h",
        "- time: 12 hours\n- first_step: 40 min",
        "- max_time: 12h\n- first_step_timeout: 40m",
        "- content 1: first step success timeout 40 minutes\n- content 2: 12 hours",
        "- MaxTime per run:\n  12 hours\n- First step success timeout:\n"
        "  40 minutes (when you see the first kl loss value, "
        "it succeeded; if you did not see any kl loss value after 40 minutes, it failed)",
        "The run is forcefully terminated after 12 hours. No first KL value after 40 minutes means it failed.",
        "Each experiment is forcefully terminated after 12 hours (720 minutes); first update: 40 min (2400 s).",
        "It may run for 12\nhours in all, and it must print its first step within 40\nminutes.",
        "首步（看到 KL）不超过40分钟；总时间不超过12小时。",
        "- 时间：12小时\n- 第一步超时：40分钟",
        "```\nfirst step: 40 min\nin all: 12 h\n```",
        "Validation may take 1 hour at most. 12 hours in all, 40 minutes to the first step",
        "A step takes 5 minutes. 12 hours in all, first step within 40 minutes, a checkpoint every 2 hours.",
        "- time: 12 hours in all, 40 minutes to the first step\n- hint: others were given 24 hours in all",
        "| first step | 40 min |\n| total | 12 h |",
    ],
)
def test_both_limits_by_their_labels(section: str) -> None:
    assert limits(section) == (12 * H, 40 * M)


@pytest.mark.parametrize(
    ("section", "campaign", "run"),
    [
        ("10h total, 1h each", 10, 1),
        ("- time: 50 experiments or 10h total, 1h each", 10, 1),
        ("10 hours in all, 1 hour per run", 10, 1),
        ("- total: 10h\n- each: 1h", 10, 1),
        ("1h/run, 10h total", 10, 1),
        ("- time: 1 hour per experiment", None, 1),
        ("- time: 2 h for each run, 20 min to the first step", None, 2),
        ("总共 10 小时，每次运行 1 小时", 10, 1),
        ("- time:\n  - 10h total\n  - 1h each", 10, 1),  # nested items
        ("**total**: 10h\n**each**: 1h", 10, 1),
        ("10h total, a step takes 1h each time, a checkpoint every 2 hours", None, 10),
    ],
)
def test_the_limit_of_each_run_and_of_the_campaign(section: str, campaign: int | None, run: int) -> None:
    text = f"## [exp_launch_command]\n- command: python x\n\n## [exp_max_time]\n{section}\n"
    blueprint = parse_blueprint(text.encode(), "b.md")
    assert blueprint.max_time_s == run * H
    assert blueprint.campaign_time_s == (campaign and campaign * H)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("- time: 12 hours", (12 * H, 20 * M)),
        ("- first_step: 5 min", (24 * H, 5 * M)),
        ("Stop it if there is no KL after 5 minutes.", (24 * H, 5 * M)),
        ("- description: 3 hours", (3 * H, 20 * M)),
        ("- time: 12 hours\n- warning: validation takes 1 hour\n- hint: save every 30 min", (12 * H, 20 * M)),
        ("- time: 12 hours (720 minutes)", (12 * H, 20 * M)),
        ("- description: the default", DEFAULT),
        ("- time: NA", DEFAULT),
        ("- description:\n- hint:", DEFAULT),
        ("", DEFAULT),
    ],
)
def test_one_limit_or_none(section: str, expected: tuple[float, float]) -> None:
    assert limits(section) == expected


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("- time: 24", "b.md:5: [exp_max_time] holds no duration: '24'"),
        ("- time: as long as it takes", "b.md:5: [exp_max_time] holds no duration: 'as long as it takes'"),
        ("12 hours, first step within forty minutes", "b.md:5: 'forty minutes' is in words, and is read in digits"),
        ("一天", "b.md:5: [exp_max_time] holds no duration: '一天'"),
        ("- time: 0 hours", "b.md:5: '0 hours' is no time at all: a limit must be longer than zero"),
        ("- time: 9999 hours", "b.md:5: '9999 hours' is longer than a year"),
        ("- time: 25:99:00", "b.md:5: '25:99:00' is not a time that exists"),
        ("x\n- time: nan hours", "b.md:6: 'nan hours' is not a time that exists"),
        (
            "- time: 12 hours in all\n- content: 24 hours in all",
            "b.md:6: [exp_max_time] says both '12 hours' (line 5) and '24 hours' (line 6) in all",
        ),
        (
            "First KL after 5 min.\n\nFirst step: 10 min.",
            "b.md:7: [exp_max_time] says both '5 min' (line 5) and '10 min' (line 7) to the first step",
        ),
        (
            "12 hours\n\n40 minutes",
            "b.md:7: [exp_max_time] does not say which limit is which: '12 hours' (line 5) and '40 minutes' (line 7)",
        ),
        (
            "10h total, 1h each, a checkpoint each 2 hours",
            "b.md:5: [exp_max_time] says both '1h' (line 5) and '2 hours' (line 5) for each run",
        ),
        (
            "- 1h each\n- 10h\n- 40m",
            "b.md:7: [exp_max_time] does not say which limit is which: '10h' (line 6) and '40m' (line 7)",
        ),
    ],
)
def test_what_cannot_be_understood(section: str, message: str) -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        limits(section)
    assert caught.value.message == message


def test_the_line_to_write_is_shown() -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        limits("12 hours, 40 minutes")
    assert caught.value.hint == "write it as `- time: 12 hours in all, 40 minutes to the first step`"
