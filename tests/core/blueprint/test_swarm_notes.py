"""Swarm mode's nouns: the notes and back, ports, containers, lint."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.blueprint.fields import blueprint_from, blueprint_like
from autoresearch.core.blueprint.lint import lint_blueprint, lint_swarm
from autoresearch.core.blueprint.model import Notes
from autoresearch.core.blueprint.notes import note_lines
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.run.swarm import Swarm
from autoresearch.errors import UsageError
from autoresearch.lab.render import render_blueprint

EXAMPLE = Path(__file__).parents[3] / "blueprints" / "examples" / "agentjet_swarm.md"


def test_the_example_says_what_it_means_and_comes_back() -> None:
    blueprint = parse_blueprint(EXAMPLE.read_bytes(), EXAMPLE.name)
    swarm = blueprint.notes.swarm
    assert swarm is not None
    assert (swarm.server, swarm.port, swarm.on_busy) == ("ajet-swarm start --swarm-port=10086", 10086, "refuse")
    assert swarm.debug.endswith("agent_roll_one_episode_debug.py")
    again = parse_blueprint(render_blueprint(blueprint_like(blueprint)).encode(), "again.md")
    assert again.notes.swarm == swarm
    assert [f.code for f in lint_blueprint(blueprint)] == ["swarm_open"]
    assert [f for f in blueprint.findings if f.severity == "error"] == []


@pytest.mark.parametrize(
    "swarm",
    [
        Swarm(server="ajet-swarm start --swarm-port=$AJET_SWARM_PORT", on_busy="stop", retries=(5, 90.0)),
        Swarm(ssh="-p 22 me@gpu7", url="http://10.0.0.7:10086", poll_s=0.5, health_s=300.0, debug_timeout_s=60.0),
        Swarm(
            server='docker run --rm -p 127.0.0.1:9:9 image \\\n  ajet-swarm start --conf "a b.yaml"',
            debug="python x.py # one",
        ),
    ],
)
def test_the_notes_come_back(swarm: Swarm) -> None:
    lines = dict(note_lines(Notes(swarm=swarm)))
    given = blueprint_from({"title": "t", "purpose": "p", "launch_command": "python agent_roll.py", **lines})
    assert given.notes.swarm == swarm
    text = render_blueprint(given)
    assert parse_blueprint(text.encode(), "x.md").notes.swarm == swarm, text


@pytest.mark.parametrize(
    ("texts", "key"),
    [
        ({"swarm_url": "gpu7"}, "swarm_url"),
        ({"swarm_on_busy": "reuse"}, "swarm_on_busy"),
        ({"swarm_retries": "20"}, "swarm_retries"),
        ({"swarm_poll": "0 s"}, "swarm_poll"),
    ],
)
def test_values_that_cannot_be_meant(texts: dict[str, str], key: str) -> None:
    with pytest.raises(UsageError, match=key):
        blueprint_from({"title": "t", "purpose": "p", "launch_command": "c", **texts})


@pytest.mark.parametrize(
    ("swarm", "port"),
    [
        (Swarm(), 10086),
        (Swarm(server="ajet-swarm start"), 10086),
        (Swarm(server="ajet-swarm start --swarm-port 10090"), 10090),
        (Swarm(server='ajet-swarm start --swarm-port="10091"'), 10091),
        (Swarm(server="ajet-swarm start --swarm-port=$AJET_SWARM_PORT"), None),
        (Swarm(server="ajet-swarm start --swarm-port=${AJET_SWARM_PORT}"), None),
        (Swarm(server="serve --port=1", url="http://127.0.0.1:7777"), 7777),
        (Swarm(server="docker run -p 127.0.0.1:8086:10086 image"), 8086),
        (Swarm(url="https://swarm.example"), 443),
    ],
)
def test_the_port(swarm: Swarm, port: int | None) -> None:
    assert swarm.port == port


def test_a_container_gets_a_name_unless_it_has_one() -> None:
    assert Swarm(server="docker run --rm i").named_container("ajet_x_srv") == "docker run --name ajet_x_srv --rm i"
    named = Swarm(server="sudo podman run --name mine i")
    assert (named.container, named.container_name, named.named_container("x")) == (True, "mine", named.server)
    plain = Swarm(server="ajet-swarm start --name docker")
    assert (plain.container, plain.named_container("x")) == (False, plain.server)


@pytest.mark.parametrize(
    ("swarm", "codes"),
    [
        (Swarm(server="ajet-swarm start"), ["swarm_open"]),
        (Swarm(server="docker run -p 127.0.0.1:10086:10086 i"), []),
        (Swarm(server="docker run -p 10086:10086 i"), ["swarm_open"]),
        (Swarm(server="docker run -itd -p 127.0.0.1:1:1 i ajet-swarm start"), ["swarm_detached"]),
        (Swarm(server="docker run -p 127.0.0.1:1:1 i ajet-swarm start -d x"), []),
        (Swarm(server="ajet-swarm start", ssh="gpu7"), ["swarm_two_servers", "swarm_open"]),
        (Swarm(server="ajet-swarm start", url="http://gpu7:1"), ["swarm_elsewhere", "swarm_open"]),
        (Swarm(ssh="gpu7"), []),
        (Swarm(url="http://gpu7:1"), []),
    ],
)
def test_lint(swarm: Swarm, codes: list[str]) -> None:
    assert [finding.code for finding in lint_swarm(swarm)] == codes


@pytest.mark.parametrize(
    ("server", "code"),
    [
        ("ajet-swarm start --swarm-port=10086 --autokill", "autokill"),
        ("ajet swarm server --port 10086", "swarm_wrong_command"),  # as a published skill has it
    ],
)
def test_what_is_refused_in_the_servers_command(server: str, code: str) -> None:
    text = EXAMPLE.read_text().replace("ajet-swarm start --swarm-port=10086\n", f"{server}\n")
    found = lint_blueprint(parse_blueprint(text.encode(), "x.md"))
    assert [f.code for f in found if f.severity == "error"] == [code]
