"""Begin a campaign, and start its controller in a session of its own, where it outlives every terminal."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, errors
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec, Rules
from autoresearch.core.text import naming
from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable, NotFoundError, UsageError
from autoresearch.git_repo import branches
from autoresearch.git_repo.checkout import current_project
from autoresearch.git_repo.exclude import exclude, pattern_for
from autoresearch.git_repo.includes import check_includes
from autoresearch.git_repo.missing_inputs import lacking
from autoresearch.lab.campaign_setup.campaign_spec import Charter, named_base, with_base
from autoresearch.lab.campaign_setup.checks import refuse, refuse_queue
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.campaign_status import fault_of
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_place
from autoresearch.lab.resolve.overrides import LaunchSettings
from autoresearch.lab.resolve.run_plan import key_of, new_token
from autoresearch.lab.runs import detached
from autoresearch.records import campaign_records
from autoresearch.records.appending import make_directory
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.index import state_home
from autoresearch.records.rundir import locked, read_json, write_json

READY_IN_S = 5.0  # a controller that takes longer to find what an earlier one left is not waited for


def preflight(plan: Charter) -> tuple[Finding, ...]:
    """What speaks for or against starting it here; nothing is touched. ConflictError where the prefix is taken."""
    resolved = plan.resolved
    launch = LaunchSettings(
        plan.trainer, resolved.inherited if resolved.recipe else None, resolved.blueprint.launch_command
    )
    doubts = refuse(plan.spec, launch)
    place = CampaignDir(Path(plan.spec.directory))
    if place.controlled:
        raise ConflictError(
            f"the campaign {plan.spec.name} is running", fix=f"autoresearch campaign status {plan.spec.name}"
        )
    refuse_queue(plan.spec, launch, CampaignHistory(place).state() if place.spec.exists() else None)
    if place.spec.exists():
        _same_again(plan, place)
    elif taken := branches.branch_commit(plan.checkout, plan.spec.branch("baseline")):
        raise ConflictError(
            f"the branch {plan.spec.branch('baseline')} exists already (at {taken[:12]}), and its campaign does not",
            hint="another --prefix keeps both",
            fix=_beside(plan),
            code="prefix_taken",
        )
    for one in slots_of(plan.spec, plan.checkout):
        one.check_owner()
    commit = named_base(plan) if plan.campaign_file["base"] else plan.checkout.head
    found = [*plan.findings, *doubts, *check_includes(plan.checkout, plan.spec.include, commit)]
    if bad := errors(found):
        raise EnvironmentUnusable(bad[0].message, hint=bad[0].hint, code=bad[0].code)
    return (*found, *lacking(plan.checkout, commit, plan.spec.include))


def _same_again(plan: Charter, place: CampaignDir) -> None:
    """A campaign that ended may go on under new rules, and then its baseline is used again."""
    old = CampaignHistory(place).state()
    if old.phase is not CampaignPhase.ENDED:
        raise ConflictError(
            f"the campaign {plan.spec.name} was begun and has not ended",
            hint="or begin another one under --prefix NAME",
            fix=f"autoresearch campaign resume {plan.spec.name}",
        )
    if differs := [words for name, words in _SAME.items() if _plain(old.spec, name) != _plain(plan.spec, name)]:
        raise _taken(plan, differs[0])


_SAME = {
    **{"blueprint_text": "blueprint text", "objective": "objective", "recipe": "recipe", "interpreter": "interpreter"},
    **{"proposer": "source of ideas", "research": "researcher, or other terms for it", "include": "list of --include"},
    **{"places": "--launcher"},
    **{"timeout_s": "--timeout", "min_steps": "min_steps", "prune": "--prune", "warmup": "--warmup"},
}


def _beside(plan: Charter) -> str:
    words = ("autoresearch", "campaign", str(plan.campaign_file.blueprint), "--prefix", f"{plan.spec.prefix}-2")
    return shlex.join(words)


def _plain(spec: CampaignSpec, name: str) -> str:
    """As it reads in campaign.json, where tuples are lists. Places are the same with other slots."""
    if name == "places":
        return json.dumps([[place.name, place.kind, place.options] for place in spec.places], sort_keys=True)
    return json.dumps(spec.to_json()[name], sort_keys=True, default=str)


def _taken(plan: Charter, differs: str) -> ConflictError:
    name = plan.spec.name
    return ConflictError(
        f"a campaign {name} ended here with another {differs}",
        hint=f"begin another one; or go on with that one as it was: autoresearch campaign set {name} --count N",
        fix=_beside(plan),
        code="prefix_taken",
    )


def _same_code(plan: Charter, place: CampaignDir) -> None:
    """What goes on, goes on from its own base: code that was changed since would be left out without a word."""
    base = campaign_records.read_spec(place).base_commit
    now = with_base(plan).base_commit
    differs = os.fsdecode(plan.checkout.git.run("diff-tree", "-r", "-z", "--name-only", base, now)).split("\0")
    terms = (
        plan.campaign_file.path,
        plan.campaign_file.blueprint,
        plan.spec.proposer.queue,
    )  # compared, or free to change
    root = os.path.realpath(plan.checkout.root)
    own = {os.path.relpath(os.path.realpath(name), root) for name in terms if name}
    if code := [name for name in differs if name and name not in own]:
        raise _taken(plan, f"state of the code ({', '.join(code[:3])}{' ...' if len(code) > 3 else ''})")


def begin(plan: Charter, parts: Parts) -> CampaignDir:
    """Write the campaign down; from here on `campaign resume` can take it from anywhere."""
    check_place(plan.spec.tmux_socket, parts, plan.checkout)
    place = CampaignDir(Path(plan.spec.directory))
    make_directory(place.path)
    folder = _known(parts)
    with locked(folder / ".lock"):  # first: from the moment when it is there, it can be found
        plan = with_own_results(plan, parts)
        register(place, plan.spec, parts)
    for path in (place.path.parent, Path(plan.spec.result_dir)):
        if pattern := pattern_for(plan.checkout, path):
            exclude(plan.checkout, pattern)
    with locked(place.path / "begin.lock"):
        if place.spec.exists():
            _same_again(plan, place)  # another command may have been quicker
            _same_code(plan, place)
            continue_with(place, asdict(plan.spec.rules))
        else:
            failpoint("begin.registered")
            campaign_records.write_spec(place, with_base(plan))
    failpoint("begin.begun")
    return place


def continue_with(place: CampaignDir, rules: Mapping[str, Any]) -> None:
    """An ended campaign goes on under other rules."""
    place.flag.unlink(missing_ok=True)
    campaign_records.add(place.journal, "rules", **rules)
    campaign_records.add(place.journal, "told", how="")
    campaign_records.add(place.journal, "state", state=CampaignPhase.RUNNING.value, reason="continued")


def register(place: CampaignDir, spec: CampaignSpec, parts: Parts) -> None:
    """Make it known to `campaign status` from any directory."""
    path = _record_of(place, spec.name, parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "name": spec.name,
        "directory": str(place.path),
        "result_dir": spec.result_dir,
        "created": spec.created,
        "started_in": str(current_project()),
    }
    write_json(path, record)


def _record_of(place: CampaignDir, name: str, parts: Parts) -> Path:
    """Two repositories may have campaigns of one name."""
    return _known(parts) / f"{naming.slugify(name, fallback='campaign')}-{key_of(place.path)}.json"


def started_in(place: CampaignDir, name: str, parts: Parts) -> str:
    """The project where a campaign was typed; "" in records of before."""
    return str((read_json(_record_of(place, name, parts)) or {}).get("started_in", ""))


def with_own_results(plan: Charter, parts: Parts) -> Charter:
    """Two campaigns never share a result directory: each would move the other's `baseline` aside."""
    spec = plan.spec
    wanted = (spec.result_dir, str(Path(spec.result_dir) / naming.slugify(spec.name)))
    for record in filter(None, map(read_json, _known(parts).glob("*.json"))):
        other = Path(str(record.get("directory", "")))
        if record.get("result_dir") == wanted[0] and str(other) != spec.directory and other.is_dir():
            return replace(plan, spec=replace(spec, result_dir=wanted[1]))
    return plan


def _known(parts: Parts) -> Path:
    return state_home(parts.environ) / "campaigns"


@dataclass(frozen=True, slots=True)
class KnownCampaign:
    """A campaign of this account."""

    name: str
    place: CampaignDir
    created: float
    started_in: str  # the project where it was typed; "" in records of before

    def is_of(self, project: Path) -> bool:
        """Whether it belongs to the project: its repository, or where it was started."""
        return self.place.path.parents[2] == project or self.started_in == str(project)

    def answers_to(self, name: str) -> bool:
        """Whether this is its name, its slug, its prefix or its directory's name."""
        names = (self.name, self.name.partition("-")[2], self.place.path.name)
        return name in names or name.endswith("/" + self.name)


def known(parts: Parts) -> list[KnownCampaign]:
    """Every campaign of this account that is still on the disk, newest first."""
    found = []
    for path in _known(parts).glob("*.json"):
        record = read_json(path) or {}
        place = CampaignDir(Path(str(record.get("directory", ""))))
        if place.spec.is_file():
            created, started_in = float(record.get("created") or 0.0), str(record.get("started_in", ""))
            found.append(KnownCampaign(str(record.get("name")), place, created, started_in))
    return sorted(found, key=lambda one: -one.created)


def find(name: str, parts: Parts) -> CampaignDir:
    """A campaign of the project where one stands, by name, slug or prefix; "" is one that runs, else the newest.

    A directory names a campaign of any project. NotFoundError where there is none: names never leave the project.
    """
    direct = CampaignDir(Path(os.path.abspath(name or ".")))  # noqa: PTH100
    if direct.spec.is_file():
        return direct
    here, every = current_project(), known(parts)
    own = [one for one in every if one.is_of(here)]
    found = [one for one in own if one.answers_to(name)] if name else own
    if found:
        return next((one for one in found if one.place.controlled), found[0]).place
    elsewhere = [str(one.place.path) for one in every if not one.is_of(here) and (not name or one.answers_to(name))]
    none = f"{here} has no campaign" if every else "there is no campaign yet"
    raise NotFoundError(
        f"no campaign of {here} answers to {name[:80]!r}" if name else none,
        hint=f"elsewhere: {', '.join(elsewhere[:5])}" if elsewhere else "its name, its slug or its directory",
        fix="autoresearch campaign --help" if not own else "autoresearch campaign status",
    )


def start_controller(place: CampaignDir, spec: CampaignSpec, parts: Parts) -> str:
    """Start the controller in a tmux session; the line that attaches to it. Returns once it holds its lock.

    Of several commands that want to, one does; the others get a ConflictError.
    """
    check_place(spec.tmux_socket, parts)
    with locked(place.path / "start.lock"):
        if place.controlled:
            raise ConflictError(
                f"another command has just started the controller of {spec.name}",
                fix=f"autoresearch campaign status {spec.name}",
            )
        return _start_controller(place, spec, parts)


def _start_controller(place: CampaignDir, spec: CampaignSpec, parts: Parts) -> str:
    token = new_token()
    session = naming.session_name(f"campaign-{naming.slugify(spec.slug)[:30]}", token)
    words = ("campaign", "control", str(place.path))
    return detached.start(place.path, words, session, f"campaign-{token}", parts, spec.tmux_socket)


def go_on(place: CampaignDir, spec: CampaignSpec, parts: Parts) -> str:
    """Start the controller, and see it find its way; the line that attaches to it.

    EnvironmentUnusable with the reason where it ends at once on a fault of its own.
    """
    attach = start_controller(place, spec, parts)
    until = time.monotonic() + READY_IN_S
    while place.controlled and time.monotonic() < until and not (read_json(place.controller) or {}).get("ready"):
        time.sleep(0.02)
    if fault := fault_of(place, CampaignHistory(place).state()):
        raise EnvironmentUnusable(
            f"{spec.name} cannot go on: {fault}",
            hint=f"what it printed: {place.log}",
            code="controller_failed",
        )
    return attach


@contextlib.contextmanager
def in_control(place: CampaignDir) -> Iterator[None]:
    """Be the one controller of a campaign. ConflictError where another lives; its lock dies with it.

    A fault that ends it is written into the journal, where `campaign status` and `campaign wait` find it.
    """
    with locked(place.lock, blocking=False) as alone:
        if not alone:
            raise ConflictError(f"another controller of {place.path.name} lives")
        record = {"pid": os.getpid(), "started": time.time()}
        write_json(place.controller, record)
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(AutoresearchError, OSError):  # a full disk: the pane still shows it
                campaign_records.add(place.journal, "fault", reason=_in_words(error))
                with place.log.open("a", encoding="utf-8") as log:
                    log.write("".join(traceback.format_exception(error)))
            raise


def _in_words(error: BaseException) -> str:
    """What ended a controller, on one line."""
    if isinstance(error, AutoresearchError):
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    if isinstance(error, KeyboardInterrupt):
        return "its controller was interrupted in its own session (Ctrl-C)"
    if isinstance(error, OSError) and error.strerror:
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {Path(frame.filename).name}, line {frame.lineno}" for frame in last)
    return " ".join(f"internal error: {type(error).__name__}: {error}{where}".split())


def changed_rules(spec: CampaignSpec, rules: Rules) -> dict[str, Any]:
    """The rules that differ, for `campaign set`. UsageError where none does."""
    old, new = asdict(spec.rules), asdict(rules)
    changes = {name: value for name, value in new.items() if value is not None and value != old[name]}
    if not changes:
        raise UsageError("nothing would change", hint="--count, --deadline, --target or a --budget-*")
    return changes
