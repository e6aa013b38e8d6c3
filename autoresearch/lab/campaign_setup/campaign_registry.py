"""The campaigns of this account: registered when they are created, found by name from any directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked, read_json, write_json
from autoresearch.records.index import state_home, state_usable

if TYPE_CHECKING:
    from autoresearch.core.campaign.spec import CampaignSpec
    from autoresearch.lab.parts import Parts

LAST_CAMPAIGN = "last-campaign"  # the name that stands for the newest campaign, as `last` does for the newest run


@dataclass(frozen=True, slots=True)
class KnownCampaign:
    """A campaign of this account."""

    name: str
    campaign_dir: CampaignDir
    created: float
    started_in: str  # the project in which the command was typed; "" in older records

    def is_of(self, project: Path) -> bool:
        """Whether it belongs to the project: by its repository, or because it was started there."""
        return self.campaign_dir.path.parents[2] == project or self.started_in == str(project)

    def answers_to(self, name: str) -> bool:
        """Whether this is its name, its slug, its prefix or its directory's name."""
        names = (self.name, self.name.partition("-")[2], self.campaign_dir.path.name)
        return name in names or name.endswith("/" + self.name)


def known(parts: Parts) -> list[KnownCampaign]:
    """Every campaign of this account that still exists on disk, newest first."""
    return [one for one in registered(parts) if one.campaign_dir.spec.is_file()]


def registered(parts: Parts) -> list[KnownCampaign]:
    """The same with those whose records were removed since."""
    campaigns = []
    for path in _folder(parts).glob("*.json"):
        record = read_json(path) or {}
        if record.get("directory"):
            campaign_dir = CampaignDir(Path(str(record.get("directory", ""))))
            created, started_in = float(record.get("created") or 0.0), str(record.get("started_in", ""))
            campaigns.append(KnownCampaign(str(record.get("name")), campaign_dir, created, started_in))
    return sorted(campaigns, key=lambda one: -one.created)


def find(name: str, parts: Parts) -> CampaignDir:
    """A campaign of the current project, by name, slug or prefix.

    "" and `last-campaign` are the newest; of several that answer to a name, one that is running, else the newest.
    A directory names a campaign of any project; other names never leave the project. NotFoundError if there is none.
    """

    name = "" if name == LAST_CAMPAIGN else name
    direct = CampaignDir(Path(os.path.abspath(name or ".")))  # noqa: PTH100
    if direct.spec.is_file():
        return direct
    from autoresearch.git_repo.checkout import current_project

    here, every = current_project(), known(parts)
    own = [one for one in every if one.is_of(here)] or _moved(here)
    matching = [one for one in own if one.answers_to(name)] if name else own
    # planned by this name, which a lone run took before it began
    matching = matching or [one for one in own if one.name.removeprefix(f"{name}-").isdecimal()]
    if matching:
        living = (one for one in matching if name and one.campaign_dir.controlled)
        return next(living, matching[0]).campaign_dir
    of_name = [one for one in registered(parts) if not name or one.answers_to(name)]
    gone = next((one.name for one in of_name if one.is_of(here) and one not in every), "")
    others = [one for one in of_name if not one.is_of(here) and one in every]
    elsewhere = ", ".join(str(one.campaign_dir.path) for one in others[:5])
    removed = f"the records of {gone} are gone: it never began, or somebody removed them (`git clean`?)"
    none = f"{here} has no campaign" if every else "there is no campaign yet"
    raise NotFoundError(
        f"no campaign of {here} answers to {name[:80]!r}" if name else none,
        hint=removed if gone else f"elsewhere: {elsewhere}" if elsewhere else "its name, its slug or its directory",
        fix="autoresearch campaign --help" if not own else "autoresearch campaign status",
    )


def _moved(project: Path) -> list[KnownCampaign]:
    """The campaigns in a project's records, newest first, for one that was moved: it was registered elsewhere."""

    found = []
    for path in (project / "reports" / "auto_research").glob("*/campaign.json"):
        with contextlib.suppress(AutoresearchError, OSError):  # damaged, or being removed just now
            spec = campaign_records.declared_spec(CampaignDir(path.parent))
            found.append(KnownCampaign(spec.name, CampaignDir(path.parent), spec.created, str(project)))
    return sorted(found, key=lambda one: -one.created)


def begun_from(read_from: Mapping[str, Any], prefix: str, parts: Parts) -> KnownCampaign | None:
    """The newest campaign that these very words began, from these files, if it has not ended.

    prefix: as the file has it; "" leaves it open.
    """
    from autoresearch.lab.campaigns.campaign_status import has_ended

    for one in known(parts):
        with contextlib.suppress(AutoresearchError, OSError):  # damaged, or being removed just now
            spec = campaign_records.declared_spec(one.campaign_dir)
            if spec.read_from == read_from and prefix in ("", spec.prefix):
                return None if has_ended(one.campaign_dir) else one
    return None


def unfinished(parts: Parts, *, elsewhere: bool = False) -> list[KnownCampaign]:
    """The campaigns of the current project that have not ended, newest first; their controllers may be gone.

    `elsewhere`: also those of other projects that a restart of this machine interrupted.
    """
    if not (every := known(parts)):
        return every
    from autoresearch.git_repo.checkout import current_project

    here = current_project()
    own = [one for one in every if one.is_of(here)]
    if not (own or elsewhere):
        return own
    from autoresearch.lab.campaigns.campaign_status import has_ended, interrupted

    lost = [one.campaign_dir for one in every if elsewhere and one not in own and interrupted(one.campaign_dir)]
    return [one for one in every if one.campaign_dir in lost or (one in own and not has_ended(one.campaign_dir))]


def register(campaign_spec: CampaignSpec, parts: Parts) -> CampaignSpec:
    """Make a campaign known to commands in any directory; returns its spec, with a result directory of its own."""
    from autoresearch.git_repo.checkout import current_project

    folder = _folder(parts)
    with state_usable(folder), locked(folder / ".lock"):
        campaign_spec = with_own_results(campaign_spec, parts)
        record = {
            "name": campaign_spec.name,
            "directory": campaign_spec.directory,
            "result_dir": campaign_spec.result_dir,
            "created": campaign_spec.created,
            "started_in": str(current_project()),
        }
        write_json(_record_of(CampaignDir(Path(campaign_spec.directory)), campaign_spec.name, parts), record)
    return campaign_spec


def with_own_results(campaign_spec: CampaignSpec, parts: Parts) -> CampaignSpec:
    """Choose a result directory that no other campaign uses: each would move the other's `baseline` aside."""
    own = str(Path(campaign_spec.result_dir) / naming.slugify(campaign_spec.name))
    for record in filter(None, map(read_json, _folder(parts).glob("*.json"))):
        other = Path(str(record.get("directory", "")))
        if (
            record.get("result_dir") == campaign_spec.result_dir
            and str(other) != campaign_spec.directory
            and other.is_dir()
        ):
            return replace(campaign_spec, result_dir=own)
    return campaign_spec


def started_in(campaign_dir: CampaignDir, name: str, parts: Parts) -> str:
    """The project in which the campaign was started; "" in older records."""
    return str((read_json(_record_of(campaign_dir, name, parts)) or {}).get("started_in", ""))


def _record_of(campaign_dir: CampaignDir, name: str, parts: Parts) -> Path:
    """The path of its record; two repositories may have campaigns of the same name."""
    from autoresearch.lab.resolve.resolve_blueprint import key_of

    return _folder(parts) / f"{naming.slugify(name, fallback='campaign')}-{key_of(campaign_dir.path)}.json"


def _folder(parts: Parts) -> Path:
    return state_home(parts.environ) / "campaigns"
