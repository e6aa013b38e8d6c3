"""The skill: valid, small, and every command line that it teaches is one that agents may type and ours understands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab import skill
from autoresearch.lab.yaml_files import parse_mapping
from tests.agents.taught import command_lines, fenced, refusals, spans, texts

REPO = Path(__file__).parents[2]
SKILL = REPO / "skills/autoresearch"
ROUTER = (SKILL / "SKILL.md").read_text()
PAGES = {one.name: one.text for one in skill.topics()}
TEXTS = texts()

# options of trainers, which the pages speak of
THEIRS = set[str]()  # words of trainers that the pages quote
FOREIGN = {"--autokill", "--flag", "--key", "--a", "--use-kl-loss", "--load", "--save", "--ckpt"}

# agentskills/agentskills 69ef37e, docs/specification.mdx
LEGAL_KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return parse_mapping(head.encode(), "SKILL.md"), body


def tokens(text: str) -> float:
    """A model's tokens, roughly: four bytes each."""
    return len(text.encode()) / 4


# ------------------------------------------------------------------------------------- what is a skill


def test_it_is_valid_by_the_specification() -> None:
    head, body = front_matter(ROUTER)
    assert set(head) <= LEGAL_KEYS
    assert head["name"] == SKILL.name and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["name"])
    assert 1 <= len(head["description"]) <= 1024
    assert len(head.get("compatibility", "")) <= 500
    assert body.strip()


def test_it_stays_small() -> None:
    head, body = front_matter(ROUTER)
    assert len(ROUTER.splitlines()) <= 120
    assert tokens(f"- {head['name']}: {head['description']}") < 256  # always in the agent's context
    assert tokens(body) < 1500  # of 5000 that the specification recommends
    for name, text in PAGES.items():
        assert len(text.splitlines()) < 200, name
        assert tokens(text) < 2000, name


def test_the_router_names_every_page_and_no_other() -> None:
    named = re.findall(r"\| `autoresearch skill show ([a-z-]+)` \|", ROUTER)
    assert sorted(named) == sorted(PAGES) and len(set(named)) == len(named)
    spoken = {word for text in TEXTS.values() for word in re.findall(r"topics? `([a-z-]+)`", text)}
    spoken |= {word for text in TEXTS.values() for word in re.findall(r"skill show ([a-z][a-z-]+)", text)}
    assert spoken <= set(PAGES)


def test_every_command_that_a_user_needs_is_taught() -> None:
    from autoresearch import cli

    taught = " ".join(line for text in TEXTS.values() for line in command_lines(text))
    # a dashboard is a person's; an agent reads `ledger show`
    not_for_agents = {"init", "demo", "clean", "config show", "skill install", "campaign start"}
    for name in set(cli.COMMANDS) - cli.CALLED_BY_US - not_for_agents:
        assert f"autoresearch {name}" in taught, name


def test_its_evals_have_the_shape_that_others_read() -> None:
    document = json.loads((SKILL / "evals/evals.json").read_text())
    assert set(document) == {"skill_name", "evals"} and document["skill_name"] == "autoresearch"
    for one in document["evals"]:
        assert {"id", "prompt", "expected_output", "files", "assertions"} <= set(one)
        assert all((SKILL / name).is_file() for name in one["files"])


# ------------------------------------------------------------------------------------ what it teaches


def test_every_option_that_is_named_alone_exists() -> None:
    import typer

    from autoresearch import cli

    known: set[str] = set()
    for name in cli.COMMANDS:
        command: Any = typer.main.get_command(cli._app(name.split()))
        for word in name.split():
            command = command.commands[word]
        known |= {option for parameter in command.params for option in parameter.opts}
    for name, text in TEXTS.items():
        for span in spans(text):
            if span.startswith("--") and (option := re.match(r"--[\w-]+", span)):
                assert option[0] in known | FOREIGN, (name, span)


@pytest.mark.parametrize("name", TEXTS)
def test_every_line_is_one_that_permission_rules_accept(name: str) -> None:
    for line in (*command_lines(TEXTS[name]), *fenced(TEXTS[name])):
        assert refusals(line) == [], line


def test_what_is_in_a_table_of_steps_is_one_command_each() -> None:
    for name in ("agentjet", "nemo-rl", "swarm"):
        rows = re.findall(r"(?m)^\| (?!its step|-)(.+?) \| (.+?) \|$", PAGES[name].partition("| its step |")[2])
        assert len(rows) >= 8, name
        for step, ours in rows:
            found = command_lines(ours)
            assert found or re.match(r"done|nothing to do|`-|the same|the last", ours), (name, step, ours)


# -------------------------------------------------------------------------------- what it says of us


def test_words_of_records_are_those_of_the_code() -> None:
    """Each `word_with_underscores` that a page quotes as ours occurs in our code."""
    files = (path for kind in ("py", "yaml") for path in (REPO / "autoresearch").rglob(f"*.{kind}"))
    ours = set(re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", "\n".join(path.read_text() for path in files)))
    for name, text in TEXTS.items():
        quoted = {span for span in spans(text) if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", span)}
        assert quoted <= ours | THEIRS, (name, quoted - ours - THEIRS)


def test_lists_are_complete() -> None:
    from autoresearch import errors
    from autoresearch.agents import registry
    from autoresearch.core.run.ending import Ending
    from autoresearch.core.run.targets import Kind

    assert re.search(r"fact: ([^)]+)\)", ROUTER).group(1).replace("\n  ", "").split(", ") == [*Ending]  # type: ignore[union-attr]
    stopped = {error.exit_code for error in vars(errors).values() if hasattr(error, "exit_code")}
    codes = {int(number) for number in re.findall(r"\b(\d+) [a-z]", ROUTER.partition("Exit codes:")[2])}
    assert codes == {0, *stopped - {1}, 10, 11, 12, 13}
    for kind in Kind:
        assert re.search(rf"\b{kind}\b", PAGES["launchers"]), kind
    for agent in registry.NAMES:
        assert agent in PAGES["researchers"], agent


# ------------------------------------------------------------------------------------ the command itself


@pytest.mark.system
def test_show_lists_the_pages_and_serves_each(bench: Any) -> None:
    payload = bench.ask("skill", "show")
    assert [one["topic"] for one in payload["topics"]] == sorted(PAGES)
    for name, text in PAGES.items():
        assert bench.here("skill", "show", name) == (0, text, "")
    one = bench.ask("skill", "show", "Run.md")
    assert (one["topic"], one["text"], one["next"]) == ("run", PAGES["run"], [])


@pytest.mark.system
def test_an_unknown_page_names_the_nearest(bench: Any) -> None:
    for asked, meant in (("failure", "failures"), ("verl", "trainers"), ("openrlhf", "trainers"), ("nemo", "nemo-rl")):
        error = bench.ask("skill", "show", asked, check=4)["error"]
        assert (error["code"], error["fix"]) == ("no_topic", f"autoresearch skill show {meant} --json"), asked
    assert bench.ask("skill", "show", "zebra", check=4)["error"]["fix"] == "autoresearch skill show --json"
    bench.ask("skill", "show", "../SKILL", check=4)


@pytest.mark.system
def test_install_lets_agents_type_our_commands_and_leaves_their_other_settings(bench: Any) -> None:
    path, rules = bench.repo / ".claude/settings.local.json", bench.repo / ".codex/rules"
    path.parent.mkdir()
    path.write_text('{"model": "opus", "permissions": {"deny": ["Bash(rm *)"], "allow": ["Bash(ls *)"]}}')
    rules.mkdir(parents=True)
    (rules / "default.rules").write_text("# mine\n")
    told = bench.here("skill", "install")[1]
    assert "Bash(autoresearch *)" in told and skill.CODEX_RULE in told and "Bash(auto" not in path.read_text()
    assert bench.ask("skill", "install")["allowed"] == {} and not (rules / "autoresearch.rules").exists()
    for _ in range(2):
        allowed = bench.ask("skill", "install", "--allow")["allowed"]
        assert allowed == {"claude": str(path), "codex": str(rules / "autoresearch.rules")}
    settings = {"deny": ["Bash(rm *)"], "allow": ["Bash(ls *)", "Bash(autoresearch *)"]}
    assert json.loads(path.read_text()) == {"model": "opus", "permissions": settings}
    assert (rules / "autoresearch.rules").read_text() == skill.CODEX_RULE + "\n"
    (rules / "autoresearch.rules").write_text("# of somebody")
    bench.ask("skill", "install", "--allow")
    assert (rules / "autoresearch.rules").read_text() == f"# of somebody\n{skill.CODEX_RULE}\n"
    (rules / "autoresearch.rules").unlink()
    (rules / "default.rules").write_text(f"# mine\n{skill.CODEX_RULE}\n")
    assert bench.ask("skill", "install", "--allow")["allowed"]["codex"] == str(rules / "default.rules")
    assert not (rules / "autoresearch.rules").exists(), "its user has the rule"
    path.write_text("{")
    error = bench.ask("skill", "install", "--allow", check=5)["error"]
    assert "is no JSON object of settings" in error["message"] and path.read_text() == "{"


@pytest.mark.system
def test_install_for_all_projects_uses_codexs_own_directory(bench: Any) -> None:
    home, codex = bench.root / "home", bench.root / "codex"
    home.mkdir()
    homes = {"HOME": str(home), "CODEX_HOME": str(codex)}
    allowed = bench.ask("skill", "install", "--scope", "user", "--allow", **homes)["allowed"]
    assert allowed == {
        "claude": str(home / ".claude/settings.json"),
        "codex": str(codex / "rules/autoresearch.rules"),
    }


@pytest.mark.system
def test_install_refuses_what_it_does_not_know(bench: Any) -> None:
    before = bench.picture()
    bench.ask("skill", "install", "--scope", "world", check=2)
    bench.ask("skill", "install", "--dir", bench.root / "nowhere", check=2)
    assert bench.picture() == before


def test_the_marketplace_names_the_skill() -> None:
    told = json.loads((REPO / ".claude-plugin/marketplace.json").read_text())
    (plugin,) = told["plugins"]
    assert [(REPO / path).resolve() for path in plugin["skills"]] == [SKILL]
    assert (plugin["source"], plugin["strict"]) == ("./", False)
    assert plugin["name"] == told["name"] == "autoresearch"


@pytest.mark.real
def test_it_is_valid_by_the_official_validator(tmp_path: Path) -> None:
    """`agentskills` of PyPI's skills-ref; `make skills-ref` installs it."""
    validator = REPO / ".venv-skills-ref/bin/agentskills"
    if not validator.exists():
        pytest.skip("skills-ref is not installed: make skills-ref")
    skill.install(tmp_path)

    def code(place: Path) -> int:
        return subprocess.run([validator, "validate", place], capture_output=True, check=False).returncode

    installed = tmp_path / ".agents/skills/autoresearch"
    assert code(SKILL) == code(installed) == 0
    (installed / "SKILL.md").write_text(ROUTER.replace("license:", "when_to_use:"))
    assert code(installed) != 0


@pytest.mark.system
def test_what_the_skill_says_of_the_answers_is_so(bench: Any) -> None:
    """The loop of SKILL.md, step by step, and the keys that it and its pages name."""
    assert bench.ask("doctor")["fit"] in (True, False)
    (bench.repo / "recipe.yaml").write_text("lr: 1.0e-5\n")
    words = ("--purpose", "why, and what differs", "--command", "python trainer.py", "--set", "yaml_path=recipe.yaml")
    for pair in ("trainer=verl", "metric=task_pass_rate@1", "direction=maximize"):
        words = (*words, "--set", pair)
    bench.ask("blueprint", "new", "FILE.md", *words)
    assert bench.ask("blueprint", "check", "FILE.md")["valid"]
    started = bench.ask("run", "FILE.md", "--detach")
    assert {"run", "session", "attach", "log_path", "result_dir", "branch", "next"} <= started.keys()
    found = bench.ask("wait", started["run"], "--for", "100s")
    while found["state"] != "ended":
        assert {"event", "tail", "first_step_left_s"} <= found.keys() and "--since" in found["next"][0]
        found = bench.ask(*shlex.split(found["next"][0])[1:])
    assert (found["ending"], found["returncode"], found["verdict"]) == ("finished", 0, "keep")
    assert found["metrics"]["task_pass_rate@1"] == 0.5 and Path(found["results"]).is_file()
    assert {"run_urls", "warnings"} <= bench.ask("status", started["run"]).keys()
    told = bench.ask("explain", started["run"])
    assert {"failure", "failure_line", "try"} <= told.keys()
    rules = ("--count", "24", "--deadline", "10h")
    assert bench.ask("campaign", "FILE.md", *rules, check=2)["error"]["code"] == "no_space"
    (bench.repo / "space.yaml").write_text("lr: {low: 1.0e-6, high: 1.0e-4}\n")
    plan = bench.ask("campaign", "FILE.md", *rules, "--space", "space.yaml", check=2)
    assert plan["state"] == "planned" and "--yes" in plan["next"][0]
