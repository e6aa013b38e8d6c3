"""A plan's file, read and checked down to the campaign of each stage, with every file that it names."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.plans.model import SLUG_MAX, KeyPath, Stage, StagedPlan, read_plan
from autoresearch.core.text import branch_and_run_names as naming
from autoresearch.errors import AutoresearchError, BlueprintError, NotFoundError, UsageError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile, read_campaign_file
from autoresearch.lab.campaign_setup.campaign_keys import DEFAULTS
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign, resolve_campaign
from autoresearch.lab.parts import Parts
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue_entry import Broken, from_entry, sources

PLAN_BYTES = 1 << 20
TOPIC_BYTES = 256 << 10
_TYPED = re.compile(r"flag --(?P<key>[a-z-]+): (?:\w+: )?")
_STOPS = ("count", "deadline", "target", "budget_gpu_hours")
_NOT_HERE = {"prefix": "the plan names the branches of its stages", "trees": "the plan gives each stage its own"}


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan's file and its contents; if `plan` is None, `findings` say why."""

    path: Path
    slug: str
    plan: StagedPlan | None
    findings: tuple[Finding, ...]
    files: Mapping[str, bytes]  # absolute path -> content: the plan, its topic, every file that its stages name
    checkout: Checkout | None = None  # the repository of every stage
    results: tuple[Path, ...] = ()  # where its runs write

    @property
    def digest(self) -> str:
        """A hash over all files: plans with the same digest describe the same experiments."""
        whole = hashlib.sha256()
        for name in sorted(self.files):
            shown = os.path.relpath(name, self.path.parent)
            whole.update(f"{shown}\0{hashlib.sha256(self.files[name]).hexdigest()}\n".encode())
        return whole.hexdigest()

    def text(self) -> str:
        """The text of the plan's file."""
        return self.files[str(self.path)].decode("utf-8", "replace")


def slug_of(path: Path) -> str:
    """The name of a plan: that of its file, without `.plan`; that of its folder for a plain `plan.yaml`."""
    stem = path.stem.removesuffix(".plan")
    name = path.parent.name if stem == "plan" else stem
    return naming.slugify(name, fallback="plan")[:SLUG_MAX].strip("-")


def read_draft(path: Path, parts: Parts, *, data: bytes | None = None) -> Draft:
    """Read and check a plan, or `data` that is about to be written to its file; writes nothing.

    Raises NotFoundError without such a file, and BlueprintError with the line if it is not YAML.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - keeps symbolic links
    data = _bytes(path, PLAN_BYTES) if data is None else data
    value = parse_any(data, path.name)
    lines = line_numbers(data)
    parsed = read_plan(value, lines, path.name)
    draft = Draft(path, slug_of(path), parsed.plan, parsed.findings, {str(path): data})
    return _checked_on_disk(draft, lines, parts) if parsed.plan else draft


def raise_on_faults(draft: Draft) -> StagedPlan:
    """The valid plan; raises PlanInvalid with all findings if there is an error."""
    if draft.plan is None or errors(list(draft.findings)):
        raise PlanInvalid(draft.findings)
    return draft.plan


class PlanInvalid(BlueprintError):  # noqa: N818 - what the plan is
    """A plan with errors; `findings` has all of them."""

    code = "plan_invalid"

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        first = errors(list(findings))[0]
        super().__init__(str(first).replace("error: ", "", 1), hint="`autoresearch plan check` shows all errors")


def stage_campaign(draft: Draft, stage: Stage, parts: Parts, *, queue: str = "", **more: Any) -> ProposedCampaign:
    """The campaign of a stage, resolved as `campaign start` would; `queue`: the path of its ideas, `more`: other keys.

    Raises what `read_campaign_file` and `resolve_campaign` raise.
    """
    return resolve_campaign(stage_campaign_file(draft, stage, parts, queue=queue, **more), parts)


def stage_campaign_file(draft: Draft, stage: Stage, parts: Parts, *, queue: str, **more: Any) -> CampaignFile:
    """The campaign file of a stage, with the stage's keys laid over it."""
    keys = {key: value for key, value in stage.campaign.items() if key not in ("file", "blueprint")} | more
    if stage.ideas:
        keys |= {"proposer": "queue", "queue": queue}
        keys.setdefault("count", None if any(keys.get(stop) for stop in _STOPS) else 1 + len(stage.ideas))
    name = str(stage.campaign.get("file") or stage.campaign["blueprint"])
    campaign_file = read_campaign_file(name, keys, start=draft.path.parent, now=parts.clock())
    ours = f"stage {stage.name}"
    sources = {key: ours if source.startswith("flag ") else source for key, source in campaign_file.sources.items()}
    return replace(campaign_file, sources=sources)


class _DiskChecks:
    """Checks that need the disk: whether named files exist, and whether each campaign could be started."""

    def __init__(self, draft: Draft, lines: Mapping[KeyPath, int], parts: Parts) -> None:
        self.draft, self.lines, self.parts = draft, lines, parts
        self.findings = list(draft.findings)
        self.files = dict(draft.files)
        self.checkout: Checkout | None = None
        self.results: dict[Path, None] = {}

    def wrong(self, key_path: KeyPath, message: str, hint: str = "") -> None:
        if typed := _TYPED.match(message):  # an error about a flag, which is a key here
            key_path, message = (*key_path, typed["key"].replace("-", "_")), message[typed.end() :]
        line = next((self.lines[key_path[:n]] for n in range(len(key_path), 0, -1) if key_path[:n] in self.lines), 0)
        name = (
            "" if key_path == ("topic",) or self.draft.plan is None else self.draft.plan.stages[int(key_path[1])].name
        )
        words = f"stage {name}: {message}" if name else message
        self.findings.append(Finding(Severity.ERROR, "bad_plan", words, hint, self.draft.path.name, line))

    def topic(self, name: str) -> None:
        path = self.draft.path.parent / name
        try:
            self.files[os.path.normpath(path)] = read_topic(path)
        except AutoresearchError as error:
            self.wrong(("topic",), error.message, error.hint)

    def stage(self, n: int, stage: Stage) -> None:
        key_path: KeyPath = ("stages", n, "campaign")
        strange = list(_campaign_faults(stage))
        for key, fault in strange:
            self.wrong((*key_path, key), fault)
        broken = list(_idea_faults(stage, self.draft.path.parent))
        for m, fault in broken:
            self.wrong(("stages", n, "ideas", m), f"idea {m + 1}: {fault}")
        if strange or broken:
            return
        try:
            self.campaign(stage)
        except AutoresearchError as error:
            self.wrong(key_path, error.message, error.hint)

    def campaign(self, stage: Stage) -> None:
        campaign_file = stage_campaign_file(self.draft, stage, self.parts, queue=str(self.draft.path.parent))  # exists
        proposed = resolve_campaign(campaign_file, self.parts)
        checkout, resolved = proposed.base.checkout, proposed.trainer_settings.resolved
        if self.checkout is not None and checkout.root != self.checkout.root:
            raise UsageError(f"its code is in {checkout.root}, that of an earlier stage in {self.checkout.root}")
        self.checkout = checkout
        self.results[resolved.result_dir] = None
        if not any(campaign_file[stop] for stop in _STOPS):
            raise UsageError("no stop rule: it would never end", hint=f"one of {', '.join(_STOPS)}")
        self.files[str(campaign_file.blueprint)] = resolved.file.data
        self.files |= _named_files(self.draft.path.parent, stage, campaign_file, resolved.recipe)

    def whole(self) -> Draft:
        ordered = tuple(sorted(self.findings, key=lambda finding: finding.line))
        plan = None if errors(self.findings) else self.draft.plan
        changed = replace(self.draft, plan=plan, findings=ordered, files=self.files)
        return replace(changed, checkout=self.checkout, results=tuple(self.results))


def _checked_on_disk(draft: Draft, lines: Mapping[KeyPath, int], parts: Parts) -> Draft:
    disk = _DiskChecks(draft, lines, parts)
    assert draft.plan is not None
    if draft.plan.topic:
        disk.topic(draft.plan.topic)
    for n, stage in enumerate(draft.plan.stages):
        disk.stage(n, stage)
    return disk.whole()


def _campaign_faults(stage: Stage) -> Iterator[tuple[str, str]]:
    """Keys of a campaign that are unknown, or not allowed in a stage."""
    keys = stage.campaign
    if keys.get("file") and keys.get("blueprint"):
        yield "blueprint", "`file` and `blueprint` are both given; a campaign file names its own blueprint"
    for key in keys:
        if key in _NOT_HERE:
            yield key, f"`{key}` is not for a stage: {_NOT_HERE[key]}"
        elif key not in DEFAULTS and key not in ("file", "blueprint"):
            yield key, f"unknown key `{key}` of a campaign; `autoresearch config schema` lists them"
        elif stage.ideas and key in ("queue", "space", "proposer") and (key, keys[key]) != ("proposer", "queue"):
            yield key, f"the stage lists its `ideas`, so `{key}` has no effect"


def _idea_faults(stage: Stage, folder: Path) -> Iterator[tuple[int, str]]:
    slugs: set[str] = set()
    for m, entry in enumerate(stage.ideas):
        try:
            idea = from_entry(entry, folder)
        except Broken as broken:
            yield m, str(broken)
            continue
        if not (isinstance(entry, Mapping) and entry.get("slug") == idea.slug):
            yield m, f"`slug: {idea.slug}` is missing: conditions and the report name ideas by it"
        if idea.slug in slugs:
            yield m, f"two ideas have the slug `{idea.slug}`"
        slugs.add(idea.slug)


def _named_files(folder: Path, stage: Stage, campaign_file: CampaignFile, recipe: Path | None) -> dict[str, bytes]:
    """The files that define this stage's experiments, apart from its blueprint and the code."""
    paths = [campaign_file.path, recipe]
    queue = None if stage.ideas else campaign_file["queue"]
    if queue:
        paths += sorted(Path(queue).iterdir()) if Path(queue).is_dir() else [Path(queue)]
    if isinstance(stage.campaign.get("space"), str):
        paths.append(folder / stage.campaign["space"])
    for entry in stage.ideas:
        paths += [folder / source for source in sources(entry)]
    return {os.path.normpath(path): _bytes(path, 16 << 20) for path in paths if path is not None and path.is_file()}


def read_topic(path: Path) -> bytes:
    """The text of a topic. NotFoundError or UsageError if it cannot be used."""
    data = _bytes(path, TOPIC_BYTES, what="topic")
    if not data.strip():
        raise UsageError(f"{path} is empty", hint="write down the question", code="bad_topic")
    if b"\0" in data:
        raise UsageError(f"{path} is no text", code="bad_topic")
    return data


def _bytes(path: Path, most: int, *, what: str = "plan") -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as failure:
        words = getattr(failure, "strerror", None) or failure
        fix = shlex.join(["autoresearch", "plan", "new", str(path)]) if path.suffix != ".md" else ""
        raise NotFoundError(f"{path}: {words}", hint=f"name a {what}'s file", fix=fix) from failure
    if len(data) > most:
        raise UsageError(f"{path} is larger than {most >> 10} KiB", hint=f"a {what} is a short description")
    return data
