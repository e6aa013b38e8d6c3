"""The JSON schemas that editors use: they take every example in the repository and agree with our own checks."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from autoresearch import cli
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.errors import AutoresearchError
from autoresearch.lab import json_schemas, settings
from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS, read_campaign_file
from autoresearch.lab.notices.sending import recipients_of
from autoresearch.lab.yaml_files import parse_any
from tests.plugin_dirs import distribution, on_path

ROOT = Path(__file__).parents[2]
VALIDATORS = {name: Draft202012Validator(json_schemas.schema_of(name)) for name in json_schemas.NAMES}


def errors(name: str, data: Any) -> list[str]:
    """What the schema has against a file; dates are texts to an editor."""
    return [error.message for error in VALIDATORS[name].iter_errors(json.loads(json.dumps(data, default=str)))]


def yaml_blocks(page: Path) -> list[Any]:
    texts = re.findall(r"(?ms)^```yaml\n(.*?)^```", page.read_text())
    return [parse_any(text.encode(), page.name) for text in texts if "stages:" not in text]  # those are plans


def examples() -> list[tuple[str, str, Any]]:
    """(schema, where, content) of each example of our files: in blueprints/ and in the pages."""
    found = [("campaign", p.name, parse_any(p.read_bytes(), p.name)) for p in ROOT.glob("blueprints/*campaign*.yaml")]
    for page in sorted(ROOT.glob("docs/*.md")):
        for data in yaml_blocks(page):
            if not isinstance(data, dict):
                continue
            campaign = "blueprint" in data or data.keys() <= CAMPAIGN_KEYS.keys() - {"launcher"}
            found.append(("campaign" if campaign else "autoresearch", page.name, data))
    return found


@pytest.mark.parametrize("name", json_schemas.NAMES)
def test_it_is_a_schema_with_a_description_of_every_key(name: str) -> None:
    schema = json_schemas.schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema") and json.loads(json.dumps(schema)) == schema
    assert all(about["description"] for about in schema["properties"].values())


def test_every_key_is_in_its_schema_and_its_default_passes() -> None:
    keys = {
        "campaign": {"blueprint", *CAMPAIGN_KEYS},
    }
    for name, known in keys.items():
        assert VALIDATORS[name].schema["properties"].keys() == known
    assert VALIDATORS["campaign"].schema["properties"]["retests"]["default"] == 6
    for name in json_schemas.NAMES:
        for key, about in VALIDATORS[name].schema["properties"].items():
            if "default" in about:
                more = {"blueprint": "b.md"} if name == "campaign" else {}
                assert errors(name, {key: about["default"], **more}) == [], key


def test_every_example_passes_and_none_with_a_typo() -> None:
    shown = examples()
    assert len(shown) > 8 and {name for name, _, _ in shown} == {"campaign", "autoresearch"}
    for name, where, data in shown:
        whole = data if name == "autoresearch" else {"blueprint": "b.md", **data}
        assert errors(name, whole) == [], where
        for key in data:
            typo = {**{k: v for k, v in whole.items() if k != key}, key[:-1] + "_": data[key]}
            assert errors(name, typo), (where, key)


def test_every_line_of_the_template_passes() -> None:
    keys = dict(re.findall(r"(?m)^# (\w+): (.*?)  # ", settings.template()))
    assert keys.keys() == {*(key.name for key in settings.KEYS), settings.NOTIFY}
    for key, value in keys.items():
        assert value == "..." or errors("autoresearch", {key: parse_any(value.encode(), key)}) == [], key


CAMPAIGNS: list[tuple[str, bool]] = [
    ("count: 24", True), ("count: '24'", True), ("count: 0", False), ("count: 2.5", False), ("count: many", False),
    ("count: true", False), ("count: null", True), ("counts: 24", False), ("seed: 0", True), ("seed: -1", False),
    ("deadline: 10h", True), ("deadline: 2100-01-01 08:00", True), ("deadline: tomorrow", False),
    ("timeout: 1h30m", True), ("timeout: 90", True), ("timeout: 24小时", True),
    ("timeout: soon", False), ("timeout: 0", False), ("timeout: [1h]", False),
    ("budget_gpu_hours: 0.5", True), ("budget_gpu_hours: 0", False), ("keep_gb: lots", False),
    ("agent_share: 0.3", True), ("agent_share: 1.3", False), ("agent_share: -0.1", False),
    ("confirm: yes", True), ("confirm: false", True), ("confirm: perhaps", False),
    ("confirm_runs: 7", False), ("{confirm_runs: 7, confirm: false}", True),
    ("baseline: 1", False), ("{baseline: 1, confirm: false}", True), ("baseline: 5", True),
    ("direction: maximize", True), ("direction: lower", True), ("direction: sideways", False),
    ("proposer: tpe", True), ("proposer: magic", False), ("screen: median", False),
    ("screen: 5m", True), ("screen: null", True), ("prune: median", False),
    ("sandbox: off", True), ("sandbox: need", True), ("sandbox: maybe", False),
    ("target: pass@1 >= 0.8", True), ("target: 0.8", True), ("guard: make lint", True), ("guard: [make, lint]", True),
    ("guard: {a: b}", False), ("include: 3", False), ("agent_args: [--fast, 3]", True),
    ("queue: ideas/", True), ("queue: [{overrides: {lr: 0.1}}]", True), ("queue: 3", False), ("queue: {a: 1}", False),
]  # fmt: skip
SPACES: list[tuple[str, bool]] = [
    ("{low: 0.1, high: 1}", True), ("{low: 0.1, high: 1, log: true}", True), ("[4, 8]", True), ("[3]", True),
    ("{choices: [a, b]}", False), ("{low: 0.1}", False), ("{high: 1}", False), ("{}", False), ("[]", False),
    ("3", False), ("{min: 0, max: 1}", False), ("{low: a, high: b}", False), ("{low: 1, high: 2, log: 3}", False),
    ("{low: 1, high: 2, points: 1}", False), ("{choices: 3}", False), ("{actor: {low: 1, high: 2}}", False),
]  # fmt: skip
PROJECTS: list[tuple[str, bool]] = [
    ("max_time: 24h", True), ("max_time: 1 day", True), ("max_time: soon", False), ("max_time: -3", False),
    ("grace: 0", True), ("stall_timeout: ''", True), ("max_tim: 24h", False),
    ("gpus: 0,1", True), ("gpus: 2", True), ("launcher: slurm", True), ("launcher: [local, {kind: slurm}]", False),
    ("launchers: {gpu1: {kind: ssh, host: h, slots: 4}}", True), ("launchers: {slurm: {account: rl}}", True),
    ("launchers: {gpu1: {host: h}}", False), ("launchers: {gpu1: {kind: teleport}}", False), ("launchers: 3", False),
    ("launchers: {gpu1: {kind: ssh, host: h, slots: 0}}", False), ("launchers: {gpu1: 3}", False),
    ("launchers: {gpu1: {kind: ssh, slots: many}}", False), ("launchers: {gpu1: {kind: k8s, image: i}}", True),
    ("notify: ntfy://topic", True), ("notify: [ntfy://a, ntfy://b]", True), ("notify:", True),
    ("notify: {url: 'ntfy://a'}", False), ("notify: [{command: ring}]", False), ("notify: 3", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "good"), CAMPAIGNS)
def test_campaign_keys_agree_with_our_check(text: str, good: bool, tmp_path: Path) -> None:
    agrees_on_a_campaign(text, good, tmp_path)


@pytest.mark.parametrize(("text", "good"), SPACES)
def test_spaces_agree_with_our_check(text: str, good: bool, tmp_path: Path) -> None:
    agrees_on_a_campaign(f"space: {{lr: {text}}}", good, tmp_path)


def agrees_on_a_campaign(text: str, good: bool, folder: Path) -> None:
    from autoresearch.core.campaign.space import read_space

    data = {"blueprint": "b.md", **parse_any(text.encode(), "campaign.yaml")}
    shutil.copy(ROOT / "blueprints/examples/agentjet.md", folder / "b.md")
    lines = text.strip("{}").split(", ") if text.startswith("{") else [text]
    (folder / "campaign.yaml").write_text("\n".join(["blueprint: b.md", *lines]))

    def ours() -> None:
        file = read_campaign_file("campaign.yaml", {}, start=folder, now=0.0)
        if file["space"]:
            read_space(file["space"])

    assert (passes(ours), errors("campaign", data) == []) == (good, good), errors("campaign", data)


@pytest.mark.parametrize(("text", "good"), PROJECTS)
def test_project_keys_agree_with_our_check(text: str, good: bool, tmp_path: Path) -> None:
    (tmp_path / settings.FILE).write_text(text)

    def ours() -> None:
        loaded = settings.load(tmp_path, environ={})
        loaded.targets()
        assert not recipients_of(loaded.notify, loaded.file).problems
        for name in loaded.launchers:
            settings.targets_of(name, loaded.launchers, "test")

    found = errors("autoresearch", parse_any(text.encode(), settings.FILE))
    assert (passes(ours), found == []) == (good, good), found


def passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except (AutoresearchError, BlueprintInvalid, AssertionError):
        return False
    return True


def test_plug_ins_that_are_installed_are_no_typos(tmp_path: Path) -> None:
    points = {"launchers": {"teleport": "nowhere:x"}, "proposers": {"magic": "nowhere:y"}}
    distribution(tmp_path, "autoresearch-mine", points)
    with on_path(tmp_path):
        campaign, project = (Draft202012Validator(json_schemas.schema_of(one)) for one in ("campaign", "autoresearch"))
        assert CAMPAIGN_KEYS["proposer"].read("magic", 0.0) == "magic"
    assert campaign.is_valid({"blueprint": "b.md", "proposer": "magic"})
    assert project.is_valid({"launchers": {"gpu1": {"kind": "teleport", "beam": 3}}})


@pytest.mark.system
@pytest.mark.parametrize("name", ["argparse", "constants", "hydra"])
def test_what_init_writes_passes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = tmp_path / name
    shutil.copytree(ROOT / "tests/samples/projects" / name, project)
    assert cli.run(["init", str(project), "--json"]) == 0, capsys.readouterr().out
    schema = json.loads((project / json_schemas.FILE).read_text())
    text = (project / "campaign.yaml").read_text()
    assert text.startswith(f"{json_schemas.first_line('campaign')}\n")
    Draft202012Validator(schema["$defs"]["campaign"]).validate(parse_any(text.encode(), "campaign.yaml"))
    assert (project / settings.FILE).read_text().startswith(f"{json_schemas.first_line('autoresearch')}\n")


def test_the_file_that_editors_read_has_both_schemas(tmp_path: Path) -> None:
    line = json_schemas.write_schema(tmp_path)
    written = json.loads((tmp_path / json_schemas.FILE).read_text())
    project, campaign = Draft202012Validator(written), Draft202012Validator(written["$defs"]["campaign"])
    assert project.is_valid({"max_time": "3h"}) and not project.is_valid({"count": 3})
    assert campaign.is_valid({"blueprint": "b.md", "count": 3}) and not campaign.is_valid({"max_time": "3h"})
    assert line == f"# yaml-language-server: $schema={json_schemas.FILE}"
    assert json_schemas.first_line("campaign") == f"{line}#/$defs/campaign"
