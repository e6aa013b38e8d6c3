"""The Runner: starts one trainer, keeps its log, limits and exit code, and leaves no process behind.

    python -S -E -s RUNNER_DIRECTORY RUN_DIR

It is the trainer's parent on whatever machine the run lives, needs Linux and Python 3.9 and nothing else (a copy
of this directory is all of it), and is alone in enforcing the run's limits, so that they hold when everything else
of ours is dead. It reads RUN_DIR/spec.json and RUN_DIR/environment; the other files of the run directory are its own:

    lock           flock'd as long as the Runner lives; its mtime is the heartbeat
    runner.json    pid, start_ticks, trainer_pid, trainer_start_ticks, boot_id, host, started (wall),
                   started_boot and trainer_started_boot (CLOCK_BOOTTIME)
    run.log        stdout and stderr of prepare commands, trainer and cleanup commands
    events.jsonl   {"t": wall, "s": seconds since the Runner's start, "event": ..., "text": ..., ...} a line
    inbox.jsonl    {"kind": "step"|..., "step": 3, "kl": 0.01, "hold_s": 60} a line: signals from elsewhere
    stop           {"how": "now"|"drain", "reason": ...}
    exit.json      the exit record, by renaming exit.rec, which was reserved before the start

Exit status: the trainer's, 1 where that would read as a success and is none, 4 without a readable
spec.json, 5 where the run has a Runner already, is over, or was started by one that died.
"""
