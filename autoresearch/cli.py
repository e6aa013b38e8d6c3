"""The command-line entry point: the table of commands, the only catch-all for errors, and the exit codes.

    0 ok · 1 internal · 2 usage · 3 blueprint invalid · 4 not found · 5 conflict · 6 environment unusable
    7 agent failed · 10 run crashed · 11 no first step in time · 12 max time · 13 no metric
    130 interrupted

Only the requested command is imported, and typer for no plain line, because `status` and `wait` are called hundreds of
times a night.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

CONTEXT = {"help_option_names": ["-h", "--help"]}


class CommandEntry(NamedTuple):
    """A command, or with no function a group of them; one without a section is called by our own programs only."""

    function: str  # `module:name`, in commands/
    section: str  # of the help page
    about: str  # one line of help


_RUNS, _RESULTS, _MANY, _SETUP, _AGENTS = "Runs", "Results", "Many runs", "Setup", "Coding agents, AgentJet"
_BEGIN, _STEER, _VERBS = "Start and watch", "Steer", "Commands"

# In the order of the help pages.
COMMANDS: dict[str, CommandEntry] = {name: CommandEntry(*entry) for name, *entry in (
    ("run", "run:run", _RUNS, "Run one blueprint: launched in tmux, watched, limited, measured, recorded."),
    ("prove", "prove:prove", _RUNS, "Is a gain real? Fresh runs of two versions or two commands, until it is decided."),
    ("status", "status:status", _RUNS, "What a run, or every living run, is doing; records those that died."),
    ("wait", "status:wait", _RUNS, "Wait for news of a run or a campaign; returns early on it."),
    ("logs", "logs:logs", _RUNS, "The log of a run, or its events: the tail, a search, or followed live."),
    ("metrics", "metrics:metrics", _RUNS, "Metrics of a run or of any log, by step; as a table, JSON or a file."),
    ("explain", "logs:explain", _RUNS, "Why a run ended: the line that shows it, and what to try."),
    ("stop", "run_control:stop", _RUNS, "End a run now; close one that is over."),
    ("attach", "run_control:attach", _RUNS, "Attach this terminal to the tmux session of a run."),
    ("note", "logs:note", _RUNS, "Write into the log of a run, or tell the agent of a campaign."),
    ("report", "results:report", _RESULTS, "Write the report of a campaign, as it stands."),
    ("ledger", "", _RESULTS, "Read the ledger of runs."),
    ("ledger show", "ledger:show", _VERBS, "The rows of a ledger, or a file for other tools (--out)."),
    ("compare", "results:compare", _RESULTS, "Compare two runs: metrics, recipe by key, code, environment, limits."),
    ("apply", "apply:apply", _RESULTS, "Bring a confirmed idea into your own files, on a branch of its own."),
    ("repro", "results:repro", _RESULTS, "Say how to make a row again."),
    ("audit", "prove:audit", _RESULTS, "How much of another loop's ledger noise alone would give, and what to prove."),
    ("campaign", "", _MANY, "Many hypotheses, one objective; `wait`, `note`, `report` take its name."),
    ("campaign start", "campaign:start", _BEGIN, "Start a campaign (`campaign FILE`, `campaign --count N` mean this)."),
    ("campaign status", "campaign_view:status", _BEGIN, "Where it stands; --full: everything needed to take over."),
    ("campaign pause", "campaign_control:pause", _STEER, "Begin nothing more; what runs goes on."),
    ("campaign resume", "campaign_control:resume", _STEER, "Go on after a pause, a crash or a reboot."),
    ("campaign stop", "campaign_control:stop", _STEER, "Stop what runs now, or let it finish (--drain); then end."),
    ("campaign set", "campaign_control:set_rules", _STEER, "Change the stop rules: count=40 deadline=10h; recorded."),
    ("campaign add", "campaign_ideas:add", _STEER, "Add an idea to the queue."),
    ("campaign skip", "campaign_ideas:skip", _STEER, "Do not try an idea; stop it if it runs."),
    ("campaign fix", "campaign_ideas:fix", _STEER, "Repair an idea that crashed, on its branch, and run it again."),
    ("campaign approve", "campaign_control:approve", _STEER, "Let an idea pass whose result looked doubtful."),
    ("campaign confirm", "campaign_control:confirm", "Claims", "Put ideas to the proof: fresh seeds, fresh baselines."),
    ("demo", "demo:demo", _SETUP, "See a run, or with --campaign a small campaign, in a scratch repository."),
    ("doctor", "doctor:doctor", _SETUP, "Check tmux, git, disk, GPUs and sandboxes on this machine."),
    ("init", "project:init", _SETUP, "Write autoresearch.yaml, the defaults of this project."),
    ("config", "", _SETUP, "The defaults of this project, and the keys of its files."),
    ("config show", "project:show", _VERBS, "Every setting, its value, and where the value comes from."),
    ("config schema", "project:schema", _VERBS, "The keys of our files, or the JSON Schema of one."),
    ("blueprint", "", _SETUP, "Make and check blueprints."),
    ("blueprint new", "blueprint:new", _VERBS, "Render a blueprint from flags."),
    ("blueprint check", "blueprint:check", _VERBS, "Say what would refuse one blueprint."),
    ("clean", "project:clean", _SETUP, "Remove worktrees and caches of what is over; lists them first."),
    ("skill", "", _AGENTS, "What a coding agent must know to drive this command."),
    ("skill show", "for_agents:show", _VERBS, "A page of the skill, for this version; without a topic, the list."),
    ("skill install", "for_agents:install", _VERBS, "Write the skill where coding agents look for it."),
    ("mcp", "for_agents:mcp", _AGENTS, "Serve the same commands as MCP tools to a coding agent, on stdin and stdout."),
    ("scaffold", "", _AGENTS, "Write the files that train an agent, and check that they work."),
    ("scaffold blackbox", "scaffold:blackbox", _VERBS, "For an agent that is a command line, with AgentJet's swarm."),
    ("scaffold check", "scaffold:check", _VERBS, "Run the collector and one episode, before any GPU is taken."),
    ("collect", "internal:collect", "", "Write the records of a run that is over (the Runner calls this)."),
    ("before-training", "internal:before_training", "", "See that a worktree holds the commit of its run."),
    ("evaluation-place", "internal:evaluation_place", "", "Make the worktree in which a run is evaluated afresh."),
    ("follow", "daemons:follow", "", "Show a run at another target and look at it (its session calls this)."),
    ("campaign control", "daemons:control_campaign", "", "Be the controller (start and resume call this)."),
    ("swarm", "", "", "The server's half of a run in AgentJet's swarm mode (a run calls this)."),
    ("swarm up", "internal:up", "", "Start the server, see the engine off and one episode work."),
    ("swarm serve", "internal:serve", "", "Be the server's session."),
    ("swarm client", "internal:client", "", "Be the client's session."),
    ("swarm down", "internal:down", "", "Stop the engine, end the server, see its port free."),
)}  # fmt: skip

# What other programs call it, and verbs that are typed without their group.
MEANT = {"kill": "stop", "ls": "status", "ps": "status", "runs": "status", "list": "status", "start": "run",
         "tail": "logs", "delete": "clean", "rm": "clean", "plot": "report", "check": "blueprint check",
         "pause": "campaign pause", "resume": "campaign resume", "confirm": "campaign confirm"}  # fmt: skip

_MAY_NOT = "`ls -ld` shows whose it is: give this account the right, or work in a copy of your own"
_DENIED = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), _MAY_NOT),
    errno.EROFS: "work in a copy on a file system that can be written, or record there",
}
DEBUG = "--debug"
COMPLETES = "_AUTORESEARCH_COMPLETE"  # the completion script of `--install-completion` sets this
CALLED_BY_US = frozenset(name for name, command in COMMANDS.items() if not command.section)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its exit code."""
    warnings.formatwarning = _warning_line
    if sys.stdout is not None:  # a name may hold bytes that are no text, and a terminal may lack a letter
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    gc.set_threshold(50_000)  # at its usual 700, what is imported is looked through a hundred times
    _leave(run(list(sys.argv[1:] if argv is None else argv)))


def _leave(code: int) -> None:
    """Exit, and leave to the kernel what Python would free object by object, a tenth of a command's CPU."""
    threading = sys.modules.get("threading")
    if (threading and threading.active_count() > 1) or sys.getprofile() or sys.gettrace():
        sys.exit(code)
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed before is None
            stream.flush()
    except (OSError, ValueError):  # Python has an exit code for this
        sys.exit(code)
    os._exit(code)


def _warning_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A plug-in that cannot be used is named in one sentence; what libraries warn of is shown with its place."""
    start = "warning: " if category.__name__ == "PluginWarning" else f"{filename}:{lineno}: {category.__name__}: "
    return f"{start}{message}\n"


def run(argv: list[str]) -> int:
    """Run one command and return its exit code; `--debug` anywhere before a `--` says on stderr what it starts."""
    ours = argv[: argv.index("--")] if "--" in argv else argv
    if DEBUG in ours:
        from autoresearch.commands.output import begin_debug

        begin_debug()
    return _run([word for word in ours if word != DEBUG] + argv[len(ours) :])


def _run(argv: list[str]) -> int:
    """Run one command and return its exit code; every error is printed as one sentence."""
    from autoresearch.errors import AutoresearchError

    if argv[:1] in (["--version"], ["-V"]):
        from autoresearch import __version__

        sys.stdout.write(f"autoresearch {__version__}\n")
        return 0
    try:
        from autoresearch.commands.output import typed

        typed.begin(argv, command=" ".join(_known(argv)))
        _refuse_meant(argv)
        argv = _started(argv)
        typed.command = " ".join(_known(argv))
        code = _plain(argv)
        if code is None:
            code = _app(argv)(argv, standalone_mode=False, prog_name="autoresearch")
        sys.stdout.flush()
    except AutoresearchError as error:
        return _fail(error)
    except KeyboardInterrupt as error:
        from autoresearch.commands.output import interrupted

        return interrupted(error)
    except Exception as error:  # noqa: BLE001 - the front door: nothing else may catch everything
        return _unexpected(argv, error)
    return code if isinstance(code, int) else 0


def verbs_of(group: str) -> list[str]:
    """The verbs of a group; of "" the commands and groups of the first level."""
    return [name.split()[-1] for name in COMMANDS if name.rpartition(" ")[0] == group]


def _refuse_meant(argv: Sequence[str]) -> None:
    """UsageError that names our verb for a word of other programs; in a group, the verb of that group."""
    group = [word for word in argv[:1] if verbs_of(word)]
    word, rest = argv[len(group) : len(group) + 1], argv[len(group) + 1 :]
    meant = MEANT.get("".join(word), "")
    if meant.split(" ")[0] not in verbs_of(" ".join(group)) or os.path.lexists(word[0]):
        return
    from autoresearch.errors import UsageError

    ours = [*group, *meant.split()]
    raise UsageError(
        f"there is no command `{' '.join([*group, *word])}`. Did you mean `{' '.join(ours)}`?",
        fix=f"autoresearch {shlex.join([*ours, *rest])}",
        code="no_such_command",
    )


def _started(argv: list[str]) -> list[str]:
    """Expand `campaign FILE`, `campaign --count 24`, `campaign` to `campaign start ...`."""
    if argv[:1] != ["campaign"] or argv[1:2] in (["--help"], ["-h"]) or {*argv[1:2]} & {*verbs_of("campaign")}:
        return argv
    return ["campaign", "start", *argv[1:]]


def _plain(argv: Sequence[str]) -> int | None:
    """The exit code of a line that is read without typer; None for any other, of which nothing was done."""
    name = " ".join(words := _known(argv))
    if COMPLETES in os.environ or not words or not COMMANDS[name].function:
        return None
    from autoresearch.commands import options

    command = _load(COMMANDS[name].function)
    values = options.read(command.parameters, argv[len(words) :])
    return None if values is None else int(command(**values))


def _app(argv: Sequence[str]) -> Any:
    """A typer app with only the requested command, or with all commands for help."""
    if COMPLETES in os.environ:  # the words typed so far come in the environment
        argv = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]
    from autoresearch.commands.help_pages import for_typer

    apps = {"": _typer("Run RL experiments from blueprints while nobody watches.", "")}
    first = argv[0] if argv and argv[0] in verbs_of("") else ""
    known = " ".join(_known([word for word in argv if not word.startswith("-")])) if first else ""
    for name, command in COMMANDS.items():
        group, _, verb = name.rpartition(" ")
        if first not in ("", name, group) or (name in CALLED_BY_US and name not in (first, known)):
            continue  # else typer would suggest what our own programs call for a typo
        shown = {"name": verb, "short_help": command.about, "hidden": name in CALLED_BY_US}
        if not command.function:
            apps[name] = _typer(command.about, name)
            apps[group].add_typer(apps[name], **shown)
        else:
            function = for_typer(_load(command.function)) if name == known else _nothing
            apps[group].command(context_settings=CONTEXT, **shown)(function)
    return apps[""]


def _typer(about: str, name: str) -> Any:
    """The app of a group, or with no name of the whole program."""
    import typer

    from autoresearch.commands.help_pages import grouped

    own = {command.split()[-1]: COMMANDS[command].section for command in COMMANDS if command.rpartition(" ")[0] == name}
    app = typer.Typer(
        cls=grouped(own),
        context_settings=CONTEXT,
        add_completion=not name,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=not name,
    )
    no = typer.Option(False, DEBUG, help="With any command: say what it starts, and where an error came from.")

    def root(debug: bool = no) -> None:
        """`run` has taken the option out."""

    app.callback(help=about)(_nothing if name else root)
    return app


def _nothing() -> None:
    pass


def _load(function: str) -> Any:
    from autoresearch.commands.output import with_json

    module, _, name = function.partition(":")
    return with_json(getattr(importlib.import_module(f"autoresearch.commands.{module}"), name))


def _fail(error: Any, cause: Exception | None = None) -> int:
    from autoresearch.commands.output import print_error, typed

    error.__cause__ = error.__cause__ or cause
    typed.as_json = "--json" in typed.ours
    print_error(error)
    return int(error.exit_code)


def _known(argv: Sequence[str]) -> list[str]:
    """The words of a command line that name a known command; [] if there are none."""
    return next((list(argv[:count]) for count in (2, 1) if " ".join(argv[:count]) in COMMANDS), [])


def _unexpected(argv: Sequence[str], error: Exception) -> int:
    """Report a usage error from the parser, or an internal error, whose traceback is saved instead of shown."""
    from autoresearch.commands.output import save_traceback
    from autoresearch.errors import AutoresearchError, EnvironmentUnusable, NotFoundError, UsageError
    from autoresearch.records.files import FULL, unwritable

    wording = getattr(error, "format_message", None)
    if wording is not None:
        meant = re.match(r"No such command '(\S+)'\. Did you mean '([\w-]+)'\?", text := str(wording()))
        words = [meant[2] if word == meant[1] else word for word in argv] if meant else [*_known(argv), "--help"]
        return _fail(UsageError(text, fix=f"autoresearch {shlex.join(words)}"))
    if type(error).__name__ == "Abort":
        return 130
    if isinstance(error, FileNotFoundError) and error.filename is None:  # so fails `os.getcwd`
        from autoresearch.git_repo.checkout import current_project

        try:
            current_project()
        except NotFoundError as removed:
            return _fail(removed)
    if isinstance(error, OSError) and error.errno in FULL:
        from pathlib import Path

        return _fail(unwritable(Path(os.fsdecode(error.filename or "a file")), error), error)
    if isinstance(error, OSError) and error.filename is not None:
        hint = _DENIED.get(error.errno or 0, "")
        return _fail(EnvironmentUnusable(f"{error.filename}: {error.strerror}", hint=hint, code="os_error"), error)
    saved = save_traceback(error)
    return _fail(AutoresearchError(f"internal error: {type(error).__name__}: {error}", hint=saved), error)
