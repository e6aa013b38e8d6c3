"""The command-line entry point: the table of commands, the only catch-all for errors, and the exit codes.

    0 ok · 1 internal · 2 usage · 3 blueprint invalid · 4 not found · 5 conflict · 6 environment unusable
    7 agent failed · 10 run crashed · 11 no first step in time · 12 max time · 13 no metric
    130 interrupted

Only the requested command is imported, because `status` and `wait` are called hundreds of times a night.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

Entry = tuple[str, str]  # ("module:function", one line of help)

COMMANDS: dict[str, Entry] = {
    "demo": ("demo:demo", "See a run, or with --campaign a small campaign, in a scratch repository."),
    "run": ("run:run", "Run one blueprint: launched in tmux, watched, limited, measured, recorded."),
    "wait": ("wait:wait", "Wait for news of a run or a campaign; returns early on it."),
    "status": ("status:status", "What a run, or every living run, is doing; records those that died."),
    "queue": ("queue:queue", "One live screen of all runs at all targets; keys for logs, stop, attach."),
    "logs": ("logs:logs", "The log of a run, or its events: the tail, a search, or followed live."),
    "explain": ("explain:explain", "Why a run ended: class, proving line, hung or exited, what to try."),
    "stop": ("run_control:stop", "End a run now, or after its step (--drain); close one that is over."),
    "attach": ("run_control:attach", "Attach this terminal to the tmux session of a run."),
    "metrics": ("metrics:metrics", "Metrics of a run or of any log, by step; as a table, JSON or a file."),
    "compare": ("compare:compare", "Compare two runs: metrics, recipe by key, code, environment, limits."),
    "report": ("report:report", "Write the report of a campaign, as it stands."),
    "repro": ("repro:repro", "Check a row's commit out again, ready to be run; --run launches it."),
    "note": ("note:note", "Write into the log of a run, or tell the agent of a campaign."),
    "clean": ("clean:clean", "Remove worktrees, sessions and caches of what is over; lists them first."),
    "doctor": ("doctor:doctor", "Check tmux, git, disk, GPUs and sandboxes on this machine."),
    "init": ("init:init", "Write autoresearch.yaml, the defaults of this project."),
    "mcp": ("for_agents:mcp", "Serve the same commands as MCP tools to a coding agent, on stdin and stdout."),
    "collect": ("internal:collect", "Write the records of a run that is over (the Runner calls this)."),
    "follow": ("follow:follow", "Follow the runs of one target (a run that goes there starts this)."),
    "before-training": (
        "internal:before_training",
        "See that a worktree holds the commit of its run (the Runner calls this).",
    ),
    "evaluation-place": (
        "internal:evaluation_place",
        "Make the worktree in which a run is evaluated afresh (the Runner calls this).",
    ),
}

GROUPS: dict[str, tuple[str, dict[str, Entry]]] = {
    "blueprint": (
        "Make and check blueprints.",
        {
            "new": ("blueprint:new", "Render a blueprint from flags, a YAML file or answers."),
            "check": ("blueprint:check", "Parse and lint one blueprint."),
        },
    ),
    "campaign": (
        "Many hypotheses, one objective; `wait`, `note`, `report` take its name.",
        {
            "start": ("campaign:start", "Start a campaign (`campaign FILE` and `campaign --count N` mean this)."),
            "status": (
                "campaign_status:status",
                "Where it stands; --full: everything needed to take over.",
            ),
            "pause": ("campaign_control:pause", "Begin nothing more; what runs goes on."),
            "resume": ("campaign_control:resume", "Go on after a pause, a crash or a reboot."),
            "stop": ("campaign_control:stop", "Stop what runs now, or let it finish (--drain); then end."),
            "skip": ("campaign_ideas:skip", "Do not try an idea, or ideas of a kind."),
            "approve": ("campaign_proofs:approve", "Let a code idea be edited; without one: what was proposed."),
            "add": ("campaign_ideas:add", "Add an idea to the queue."),
            "fix": ("campaign_ideas:fix", "Repair an idea that crashed, on its branch, and run it again."),
            "set": ("campaign_control:set_rules", "Change the stop rules: count=40 deadline=10h; recorded."),
            "confirm": ("campaign_proofs:confirm", "Put ideas to the proof: fresh seeds, fresh baselines."),
            "control": ("internal:control_campaign", "Be the controller (start and resume call this)."),
        },
    ),
    "ledger": (
        "Read the ledger of runs.",
        {
            "show": ("ledger:show", "The rows of a ledger as a table, TSV, JSON or markdown."),
            "export": ("ledger:export", "A ledger as CSV, Parquet, or TensorBoard's event files."),
        },
    ),
    "swarm": (
        "The server's half of a run in AgentJet's swarm mode (a run calls this).",
        {
            "up": ("swarm:up", "Start the server, see the engine off and one episode work (a run calls this)."),
            "serve": ("swarm:serve", "Be the server's session (a run calls this)."),
            "client": ("swarm:client", "Be the client's session (a run calls this)."),
            "down": ("swarm:down", "Stop the engine, end the server, see its port free (a run calls this)."),
        },
    ),
    "scaffold": (
        "Write the files that train an agent, and check that they work.",
        {
            "blackbox": ("scaffold:blackbox", "For an agent given by its command line, with AgentJet's swarm."),
            "check": ("scaffold:check", "Run the collector and one episode, before any GPU is taken."),
        },
    ),
    "skill": (
        "What a coding agent must know to drive this command.",
        {
            "show": ("for_agents:show", "A page of the skill, for this version; without a topic, the list."),
            "install": ("for_agents:install", "Write the skill where coding agents look for it."),
        },
    ),
    "config": (
        "The defaults of this project, and the keys of its files.",
        {
            "show": ("config:show", "Every setting, its value, and where the value comes from."),
            "schema": ("config:schema", "The keys of our files, or the JSON Schema of one."),
        },
    ),
}

FORMER = {  # merged into another command, or moved below `campaign`
    "top": "queue",
    "events": "logs --events",
    "add": "campaign add",
    "tell": "note",
    "veto": "campaign skip",
    "confirm": "campaign confirm",
    "adopt": "status --exit-code",
    "close": "stop",
    "campaign tell": "note",
    "campaign wait": "wait",
    "campaign report": "report",
    "blueprint schema": "config schema blueprint",
    "campaign brief": "campaign status --full",
    "campaign drain": "campaign stop --drain",
    "campaign proposals": "campaign approve",
}

GONE = {  # what does it now
    "plan": "a campaign file with `after: NAME` begins when another campaign is over (docs/campaign.md)",
    "skill eval": "in a clone of the repository: python -m skills.evaluate",
}

# What other programs call it.
MEANT = {"kill": "stop", "ls": "status", "ps": "status", "runs": "status", "list": "status", "start": "run",
         "tail": "logs", "delete": "clean", "rm": "clean", "plot": "report"}  # fmt: skip

# What those meant that named nothing, where the command of today means a run.
UNNAMED = {"tell": "last-campaign", "campaign tell": "last-campaign", "campaign wait": "last-campaign"}

_MAY_NOT = "`ls -ld` shows whose it is: give this account the right, or work in a copy of your own"
_DENIED = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), _MAY_NOT),
    errno.EROFS: "work in a copy on a file system that can be written, or record there",
}
DEBUG = "--debug"
COMPLETES = "_AUTORESEARCH_COMPLETE"  # the completion script of `--install-completion` sets this
CALLED_BY_US = ("collect", "follow", "before-training", "evaluation-place", "control", "up", "serve", "client", "down")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its exit code."""
    warnings.showwarning = _show_warning
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: object = None,
) -> None:
    """A plug-in that cannot be used is named in one sentence; what libraries warn of is shown with its place."""
    start = "warning: " if category.__name__ == "PluginWarning" else f"{filename}:{lineno}: {category.__name__}: "
    sys.stderr.write(f"{start}{message}\n")


def run(argv: list[str]) -> int:
    """Run one command and return its exit code; with `--debug` anywhere before a `--`, write a log of what it does."""
    ours = argv[: argv.index("--")] if "--" in argv else argv
    if DEBUG not in ours and not os.environ.get("AUTORESEARCH_DEBUG"):
        return _run(argv)
    from autoresearch.commands.output import remark
    from autoresearch.records.index import state_home
    from autoresearch.runner import debug_log

    argv, started = [word for word in ours if word != DEBUG] + argv[len(ours) :], time.monotonic()
    if DEBUG in ours and "/" not in os.environ.get(debug_log.VARIABLE, ""):
        os.environ[debug_log.VARIABLE] = "1"
    try:
        path = debug_log.begin(" ".join(_known(argv)), f"{state_home()}/debug")
    except OSError as error:
        remark(f"the debug log cannot be written: {error}")
        return _run(argv)
    debug_log.note("autoresearch %s, in %s, Python %s", shlex.join(argv), debug_log.here(), sys.version)
    code: object = "none: it was ended"
    try:
        code = _run(argv)
        return code
    finally:
        debug_log.note("exit code %s after %.3f s", code, time.monotonic() - started)
        debug_log.end()
        if path:
            remark(f"debug log: {path}")


def _run(argv: list[str]) -> int:
    """Run one command and return its exit code; every error is printed as one sentence."""
    from autoresearch.errors import AutoresearchError

    if argv[:1] in (["--version"], ["-V"]):
        from autoresearch import __version__

        sys.stdout.write(f"autoresearch {__version__}\n")
        return 0
    from autoresearch.commands import output

    output.typed[:] = argv
    try:
        _refuse_former(argv)
        _refuse_meant(argv)
        argv = _started(argv)
        code = _app(argv)(argv, standalone_mode=False, prog_name="autoresearch")
        sys.stdout.flush()
    except AutoresearchError as error:
        return _fail(argv, error)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the front door: nothing else may catch everything
        return _unexpected(argv, error)
    return code if isinstance(code, int) else 0


def _refuse_former(argv: Sequence[str]) -> None:
    """UsageError that says what to type instead of a command's former name: scripts and agents remember those."""
    from autoresearch.errors import UsageError

    for count in (1, 2):
        former = " ".join(argv[:count])
        if (now := FORMER.get(former)) and not os.path.lexists(argv[count - 1]):
            line = shlex.join(_named(former, argv[count:]))
            raise UsageError(f"`{former}` is `{now}` now", fix=f"autoresearch {now} {line}".rstrip())
        if hint := GONE.get(former):
            raise UsageError(f"there is no command `{former}` any more", hint=hint, code="no_such_command")


def _refuse_meant(argv: Sequence[str]) -> None:
    """UsageError that names our verb for a word of other programs; in a group, the verb of that group."""
    group = argv[0] if argv[:1] and argv[0] in GROUPS else ""
    word, rest = (argv[1:2], argv[2:]) if group else (argv[:1], argv[1:])
    now = MEANT.get(word[0]) if word else None
    if now is None or os.path.lexists(word[0]):
        return
    if not group and word == ["start"] and any(one.endswith((".yaml", ".yml")) for one in rest):
        now = "campaign start"
    verbs: Collection[str] = GROUPS[group][1] if group else COMMANDS
    if now.partition(" ")[0] not in {*verbs, *(() if group else GROUPS)} or word[0] in verbs:
        return
    from autoresearch.errors import UsageError

    words = [*([group] if group else []), *now.split(), *rest]
    there = " ".join([*([group] if group else []), word[0]])
    raise UsageError(f"there is no command `{there}`. Did you mean `{' '.join(words[: len(words) - len(rest)])}`?",
                     fix=f"autoresearch {shlex.join(words)}", code="no_such_command")  # fmt: skip


def _named(former: str, words: Sequence[str]) -> list[str]:
    """What followed a former name, with the name that it left out where today's command needs one."""
    if former not in UNNAMED:
        return list(words)
    names = [word for word in words if not word.startswith("-")]
    named = len(names) > 1 if former.endswith("tell") else words[:1] == names[:1] != []  # `tell` had words after it
    return list(words) if named else [UNNAMED[former], *words]


def _started(argv: list[str]) -> list[str]:
    """Expand `campaign FILE`, `campaign --count 24` to `campaign start ...`."""
    named = argv[1:2] in (["--help"], ["-h"], []) or _names_a_verb(argv[1], GROUPS["campaign"][1])
    return argv if argv[:1] != ["campaign"] or named else ["campaign", "start", *argv[1:]]


def _names_a_verb(word: str, verbs: Collection[str]) -> bool:
    """Whether a word is a verb of a group, or a slip of one: a file has a suffix, a directory, or is there."""
    if word in verbs:
        return True
    import difflib

    named_file = word.startswith("-") or "." in word or "/" in word or os.path.lexists(word)
    return not named_file and bool(difflib.get_close_matches(word, verbs, 1, 0.7))


def _app(argv: Sequence[str]) -> Any:
    """A typer app with only the requested command, or with all commands for help."""
    import typer

    from autoresearch.commands.help_pages import CONTEXT, PlainCommand

    if COMPLETES in os.environ:  # the words typed so far come in the environment
        argv = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]
    app = _typer("Run RL experiments from blueprints while nobody watches.", completes=True)
    words = [a for a in argv if not a.startswith("-")]
    wanted = words[0] if argv and words[:1] == list(argv[:1]) else ""
    for name, entry in COMMANDS.items():
        if name in CALLED_BY_US and name != wanted:
            continue  # else typer would suggest it for a typo
        if wanted in ("", name) or wanted not in COMMANDS | GROUPS:
            shown = {"help": entry[1], "short_help": entry[1], "hidden": name in CALLED_BY_US}
            loaded = _load(entry, real=name == wanted)
            app.command(name, cls=PlainCommand, context_settings=CONTEXT, **shown)(loaded)
    for name, (text, entries) in GROUPS.items():
        if wanted in ("", name) or wanted not in COMMANDS | GROUPS:
            group = _typer(text)
            for sub, entry in entries.items():
                if sub in CALLED_BY_US and sub not in words[1:2]:
                    continue
                shown = {"help": entry[1], "short_help": entry[1], "hidden": sub in CALLED_BY_US}
                loaded = _load(entry, real=name == wanted and sub in words[1:2])
                group.command(sub, cls=PlainCommand, context_settings=CONTEXT, **shown)(loaded)
            app.add_typer(group, name=name, short_help=text, hidden=all(sub in CALLED_BY_US for sub in entries))
    assert isinstance(app, typer.Typer)
    return app


def _typer(text: str, *, completes: bool = False) -> Any:
    import typer

    from autoresearch.commands.help_pages import CONTEXT, SectionedGroup

    app = typer.Typer(
        cls=SectionedGroup,
        context_settings=CONTEXT,
        add_completion=completes,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    no = typer.Option(False, DEBUG, help="With any command: write a log of what it does, and say where.")

    def root(debug: bool = no) -> None:
        """`run` has taken the option out."""

    app.callback(help=text)(root if completes else _nothing)
    return app


def _nothing() -> None:
    pass


def _load(entry: Entry, *, real: bool) -> Callable[..., Any]:
    if not real:
        return lambda: None
    module, _, function = entry[0].partition(":")
    loaded = getattr(importlib.import_module(f"autoresearch.commands.{module}"), function)
    assert callable(loaded)
    return loaded  # type: ignore[no-any-return]


def _fail(argv: Sequence[str], error: Any) -> int:
    from autoresearch.commands.output import print_error
    from autoresearch.runner.debug_log import note

    note("%s", error.message, traceback=error)
    print_error(error, as_json="--json" in argv, command=" ".join(_known(argv)))
    return int(error.exit_code)


def _known(argv: Sequence[str]) -> list[str]:
    """The words of a command line that name a known command; [] if there are none."""
    name, sub = (*argv, "", "")[:2]
    if name in GROUPS:
        return [name, sub] if sub in GROUPS[name][1] else [name]
    return [name] if name in COMMANDS else []


def _unexpected(argv: Sequence[str], error: Exception) -> int:
    """Report a usage error from the parser, or an internal error, whose traceback is saved instead of shown."""
    from autoresearch.commands.output import save_traceback
    from autoresearch.errors import AutoresearchError, UsageError
    from autoresearch.runner.debug_log import note

    wording = getattr(error, "format_message", None)
    if wording is not None:
        meant = re.match(r"No such command '(\S+)'\. Did you mean '([\w-]+)'\?", text := str(wording()))
        words = [meant[2] if word == meant[1] else word for word in argv] if meant else [*_known(argv), "--help"]
        return _fail(argv, UsageError(text, fix=f"autoresearch {shlex.join(words)}"))
    if type(error).__name__ == "Abort":
        return 130
    if isinstance(error, OSError) and (error.filename is not None or error.errno == errno.ENOSPC):
        from autoresearch.errors import EnvironmentUnusable

        code = "disk_full" if error.errno == errno.ENOSPC else "os_error"
        where = f"{error.filename}: " if error.filename is not None else ""
        hint = _DENIED.get(error.errno or 0, "")
        return _fail(argv, EnvironmentUnusable(f"{where}{error.strerror}", hint=hint, code=code))
    note("internal error", traceback=error)
    saved = save_traceback(error)
    return _fail(argv, AutoresearchError(f"internal error: {type(error).__name__}: {error}", hint=saved))
