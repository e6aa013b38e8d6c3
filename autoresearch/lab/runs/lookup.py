"""Finds what a name means: a run, a campaign, or a row of a ledger (`CAMPAIGN:INDEX[.REPLICATE]`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autoresearch.core.run.ending import Verdict
from autoresearch.core.text.regex import later
from autoresearch.errors import NotFoundError
from autoresearch.records.index import IndexEntry
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.records.campaign_records import CampaignDir

    Named: TypeAlias = RunDir | CampaignDir

LAST = "last"  # the newest run of this project
OWN = 1000  # of the newest runs, whose own campaign may be named
NEAR = 50  # runs whose names are compared with one that is not known
LISTED = 5  # runs of other projects to list if this one has none of that name
_ROW = later(r"(?P<campaign>.+):(?P<index>\d{1,9})(?:\.(?P<replicate>\d{1,9}))?\Z")


def resolve(name: str, parts: Parts) -> Named:
    """The run or campaign that a name means; of both, a run that lives, a campaign that is controlled, else the run.

    `last` and `last-campaign` are the newest of each in this project. NotFoundError for none.
    """
    from autoresearch.lab.campaign_setup import campaign_registry

    if name == campaign_registry.LAST_CAMPAIGN:
        return campaign_registry.find(name, parts)
    try:
        rundir = find_run(name, parts)
    except NotFoundError as error:
        if name != LAST and (campaign := _campaign(name, parts)):
            return campaign
        message = error.message.replace("no run of", "no run or campaign of", 1)
        raise NotFoundError(message, hint=error.hint, fix=error.fix, code=error.code) from None
    if name == LAST or "/" in name or rundir.state().lives or parts.index.by_id(name):
        return rundir
    campaign = _campaign(name, parts)
    return campaign if campaign and campaign.controlled else rundir


def recorded(name: str, parts: Parts, *, instead: str = "ledger show") -> RecordedRun:
    """The run of a name, as its directory records it. Raises NotFoundError.

    instead: the command that is about a campaign, for the error where one has that name.
    """
    try:
        return RecordedRun.read(find_run(name, parts))
    except NotFoundError as error:
        if name != LAST and _campaign(name, parts):
            message = f"{name} is a campaign"
            raise NotFoundError(message, hint=error.hint, fix=f"autoresearch {instead} {name}") from None
        raise


def find_run(name: str, parts: Parts) -> RunDir:
    """The run directory for a run id, a session name or a directory; a slug, or `last`, of this project; a row.

    That of a row may be gone. Raises NotFoundError that lists other projects' matches.
    """
    if entry := parts.index.by_id(name):
        return RunDir(Path(entry.run_dir))
    if Path(name).is_absolute() and (found := _at(name, parts)):
        return found
    from autoresearch.git_repo.checkout import current_project

    project = str(current_project())
    if own := _named(name, project, parts):
        return RunDir(Path(own[0].run_dir))
    if found := _at(name, parts):
        return found
    if (row := _ROW.match(name)) and (ledger := _ledger(row["campaign"], project, parts)):
        return _of_row(ledger, int(row["index"]), row["replicate"])
    import difflib

    names = [word for one in parts.index.recent(NEAR, project) for word in (one.run, one.slug)]
    near = difflib.get_close_matches(name[:80], names, 1)
    elsewhere = ", ".join(f"{one.run} in {one.run_dir}" for one in _named(name, "", parts)[:LISTED])
    raise NotFoundError(
        f"no run was recorded in {project}" if name == LAST else f"no run of {project} answers to {name[:80]!r}",
        hint=f"did you mean {near[0]}?"
        if near
        else f"elsewhere: {elsewhere}"
        if elsewhere
        else "a run id, a session name, a slug, CAMPAIGN:INDEX[.REPLICATE], a directory, or `last`",
        fix=f"autoresearch status {near[0]}" if near else "autoresearch status",
    )


def find_ledger(name: str, parts: Parts) -> Path:
    """The ledger that a name means: a campaign's, the one that a run is in, or a file, which may not exist yet.

    "" is the newest campaign here. Raises NotFoundError.
    """
    if name.endswith(".tsv"):
        return Path(name).absolute()
    from autoresearch.lab.campaign_setup.campaign_registry import LAST_CAMPAIGN

    found = resolve(name or LAST_CAMPAIGN, parts)
    return found.path.parent / "results.tsv" if isinstance(found, RunDir) else found.ledger


def unnamed(parts: Parts) -> str:
    """What `wait` waits for where nothing is named: a campaign that lives, else the newest run."""
    from autoresearch.lab.campaign_setup.campaign_registry import unfinished

    living = (str(one.campaign_dir.path) for one in unfinished(parts) if one.campaign_dir.controlled)
    return next(living, LAST)


def _campaign(name: str, parts: Parts) -> CampaignDir | None:
    from autoresearch.lab.campaign_setup import campaign_registry

    try:
        return campaign_registry.find(name, parts) if name else None
    except (NotFoundError, OSError, ValueError):  # too long, or not a path
        return None


def _ledger(name: str, project: str, parts: Parts) -> Path | None:
    """The ledger of a campaign, or of a lone run's own."""
    if campaign := _campaign(name, parts):
        return campaign.ledger
    own = (Path(entry.run_dir).parent for entry in parts.index.recent(OWN, project))
    return next((path / "results.tsv" for path in own if path.name == name), None)


def _of_row(ledger: Path, index: int, replicate: str | None) -> RunDir:
    """The run directory of an idea's first row, or of that of a replicate; a cheap run of `screen` is not its first."""
    from autoresearch.records.ledger import Ledger

    rows = [row for row in Ledger(ledger).rows() if row.index == index and row.run_dir]
    if chosen := [row for row in rows if replicate is None or row.replicate == int(replicate)]:
        whole = [row for row in chosen if row.status != Verdict.SCREENED]
        return RunDir(Path((whole or chosen)[0].run_dir))
    have = ", ".join(str(row.replicate) for row in rows if row.replicate is not None)
    what = f"replicate {replicate} of idea {index} (there is {have})" if rows else f"idea {index}"
    raise NotFoundError(
        f"{ledger} has no row of {what}",
        hint="a run that is not over has no row yet",
        fix=f"autoresearch ledger show {ledger}",
        code="no_row",
    )


def _named(name: str, project: str, parts: Parts) -> list[IndexEntry]:
    return parts.index.recent(LISTED, project) if name == LAST else parts.index.by_slug(name, project)


def _at(name: str, parts: Parts) -> RunDir | None:
    """The newest run of a result directory, or the run of a run directory."""
    if entries := parts.index.by_directory(name):
        return RunDir(Path(entries[0].run_dir))
    try:
        direct = RunDir(Path(name).absolute())
        return direct if direct.spec.is_file() else None
    except (OSError, ValueError):  # too long, or not a path
        return None
