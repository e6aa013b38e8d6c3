"""The Runner: starts one trainer, keeps its log, limits and exit code, and leaves no process behind.

    python -S -E -s RUNNER_DIRECTORY RUN_DIR

It is the trainer's parent on whichever machine the run executes. It needs only Linux, Python 3.9 and a copy of this
directory. It alone enforces the run's limits, so they hold even when every other autoresearch process is dead.
It reads RUN_DIR/spec.json and RUN_DIR/environment; the other files of the run directory are its own:

    lock           held by flock while the Runner lives; its mtime is the heartbeat
    runner.json    pid, start_ticks, trainer_pid, trainer_start_ticks, boot_id, host, gpus, started (wall),
                   started_boot and trainer_started_boot (CLOCK_BOOTTIME)
    run.log        stdout and stderr of prepare commands, trainer and cleanup commands
    events.jsonl   one {"t": wall, "s": seconds since the Runner's start, "event": ..., "text": ..., ...} per line
    stop           {"reason": ...}
    exit.json      the exit record; renamed from exit.rec, whose disk space is reserved before the start

Exit status: the trainer's; 1 if that is 0 or unknown although the run did not finish; 4 without a readable
spec.json; 5 if the run already has a Runner, is over, or was started by a Runner that died.
"""
