"""`notify:` of autoresearch.yaml: whom it names, what is wrong with it, and what may be shown of it."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.notifiers.notice import Notice, NoticeKind, parse_recipients, shown_url

SOURCE = "autoresearch.yaml"
JWT = "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl"


def named(value: object, **environ: str) -> list[tuple[str, str, int]]:
    found = parse_recipients(value, SOURCE, environ)
    assert found.problems == ()
    return [(one.url, one.command, len(one.kinds)) for one in found.each]


def test_one_url_a_list_and_blocks() -> None:
    every = len(NoticeKind)
    assert named("ntfy://mine") == [("ntfy://mine", "", every)]
    assert named(["ntfy://mine", {"command": "say hello"}]) == [("ntfy://mine", "", every), ("", "say hello", every)]
    two = {"url": ["ntfy://a", "ntfy://b"], "events": ["end", "pause"]}
    assert named(two) == [("ntfy://a", "", 3), ("ntfy://b", "", 3)]
    assert named(None) == named([]) == named("none") == named("") == []


def test_variables_are_filled_in_and_their_names_known() -> None:
    assert named("slack://${SLACK}/x", SLACK="a/b/c") == [("slack://a/b/c/x", "", len(NoticeKind))]
    assert named("${WHOLE}", WHOLE="ntfy://mine")[0][0] == "ntfy://mine"
    both = parse_recipients(["slack://${A}", {"command": 'curl -d "$TEXT" ${B}'}], SOURCE, {"A": "x"})
    assert both.variables == ("A", "TEXT", "B")
    assert [one[0] for one in named(" ntfy://a  ntfy://b\n")] == ["ntfy://a", "ntfy://b"] and named(" none\n") == []


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("slack://${SLACK_TOKEN}", "slack://***: the variable SLACK_TOKEN is not set"),
        ("hello", "it is no URL, which begins with a scheme such as slack:// or mailto://"),
        (7, "an entry is a URL, {url: ...} or {command: ...}"),
        ({"url": "ntfy://a", "command": "b"}, "an entry has either a url or a command"),
        ({"events": ["end"]}, "an entry has either a url or a command"),
        ({"url": "ntfy://a", "event": "end"}, "unknown key 'event'; known: url, command, events"),
        ({"url": "ntfy://a", "events": ["finish"]}, "events: 'finish' is no event; known: run_end, campaign_end, "),
        ({"url": "ntfy://a", "events": [["end"]]}, "events: ['end'] is no event; "),
        ({"url": "ntfy://a", "events": []}, "events: names none"),
        ({"url": 7}, "the url is no text"),
    ],
)
def test_a_bad_entry_is_one_sentence_and_the_others_count(entry: Any, words: str) -> None:
    found = parse_recipients(["ntfy://good", entry], SOURCE, {})
    assert [one.url for one in found.each] == ["ntfy://good"]
    (problem,) = found.problems
    assert problem.startswith(f"autoresearch.yaml: notify: entry 2: {words}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("json://127.0.0.1:8080/hooks/abc?x=y", "json://127.0.0.1:8080/***"),
        ("mailto://me:pass@gmail.com", "mailto://gmail.com/***"),
        ("mailto://me:p%40ss@mail.example.org?to=x", "mailto://mail.example.org/***"),
        ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/***"),
        ("slack://xoxb-1234-5678/#general", "slack://***"),
        ("tgram://123456789:AbCdEf/42", "tgram://***"),
        (f"foo://{JWT}/", "foo://***"),
        ("json://user:pa@ss@host.org/", "json://***"),  # not clear where the host begins
        ("json://localhost/x", "json://***"),
    ],
)
def test_of_a_url_only_a_certain_host_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_what_a_service_says_is_kept_without_any_part_of_the_url() -> None:
    (one,) = parse_recipients("https://me:hunter2@hooks.example.org/T0AB/s3cr%2Fet?key=qwertz", SOURCE, {}).each
    said = "POST https://hooks.example.org/T0AB/s3cr%2Fet (or s3cr/et) as hunter2, key=qwertz\n failed: 404"
    assert one.without_secrets(said) == "POST https://hooks.example.org/***/*** (or ***) as ***, key=*** failed: 404"


def test_a_line_is_cut() -> None:
    notice = Notice(NoticeKind.PAUSE, "pause:1", "a title", ("one", "two " * 200))
    assert [len(line) for line in notice.body.splitlines()] == [3, 400]


def test_secrets_in_what_is_said_are_masked() -> None:
    notice = Notice(NoticeKind.RUN_END, "k", "t", ("export OPENAI_API_KEY=sk-abcdefghij0123456789",))
    assert "0123456789" not in notice.body and "***" in notice.body
