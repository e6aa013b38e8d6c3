"""Files of pods: on a volume that is mounted here too, or sent in a Secret and returned in the pod's log."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.run import log_stream
from autoresearch.core.run.job_launcher import Declined, DirectoryState, Job, ProgramOutput, Want
from autoresearch.core.run.targets import Target
from autoresearch.launchers.kubernetes_kubectl import Kubectl
from autoresearch.launchers.kubernetes_names import PLACE, TELLS, label_value
from autoresearch.launchers.shared import SharedFiles

PIECE = 1 << 20  # bytes of one file per answer
MOST_LOG = 16 << 20  # bytes of one pod's log per answer
MOST_SECRET = 1_000_000  # a Secret holds 1 MiB (MaxSecretSize, core/v1)
OVERLAP_S = 60.0  # clocks of nodes differ by less
_LINE = re.compile(rb"\[pod/(?P<pod>[^/\]]+)/[^\]]*\] (?P<time>\d{4}-\d\d-\d\dT[0-9:.]+Z) ?(?P<text>.*)", re.S)


class VolumeFiles(SharedFiles):
    """Files on a volume: `mount` in a pod is `local` here. If both are the same path, nothing is copied.

    Programs for the volume run here, with the local Python instead of the image's; their input and output use the pod's
    paths. Other files of the image cannot be checked from here, and are assumed to exist.
    """

    def __init__(self, environ: Mapping[str, str], target: Target, mount: str, local: str) -> None:
        super().__init__(environ)
        self.mount, self.local = mount.rstrip("/"), local.rstrip("/")
        self.shared = self.mount == self.local
        self.python = target.text("python", "python3")
        venv = target.text("venv")
        self.interpreter = target.text("interpreter") or (f"{venv}/bin/python" if venv else self.python)

    def here(self, path: str) -> str:
        """The local path of a pod's path."""
        inside = path == self.mount or path.startswith(f"{self.mount}/")
        return self.local + path[len(self.mount) :] if inside else path

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`."""
        if self.shared:
            return super().look(wants)
        asked = [Want(w.run, self.here(w.directory), {self.here(n): o for n, o in w.offsets.items()}) for w in wants]
        found = super().look(asked)
        named = {want.run: {self.here(name): name for name in want.offsets} for want in wants}
        return {
            run: replace(seen, grown={named[run].get(name, name): data for name, data in seen.grown.items()})
            for run, seen in found.items()
        }

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`."""
        super().put(self.here(directory), with_pod_environment(files), private=private)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, cwd: str = "") -> ProgramOutput:
        """See `Reach`: runs locally, on the volume."""
        if self.shared:
            return super().run(argv, stdin=stdin, timeout_s=timeout_s, cwd=cwd)
        ours = [sys.executable if n == 0 and word == self.python else self.here(word) for n, word in enumerate(argv)]
        text = _moved(stdin, self.mount, self.local)
        said = super().run(ours, stdin=text, timeout_s=timeout_s, cwd=self.here(cwd))
        out = _moved(said.out, self.local, self.mount)
        if argv[0] == self.python:
            out = self._as_the_image(out.replace(sys.executable.encode(), self.python.encode()))
        return replace(said, out=out)

    def _as_the_image(self, answer: bytes) -> bytes:
        """The answer of a survey (`runner.remote_files`) without its claims about files outside of the volume."""
        try:
            found = json.loads(answer)
        except ValueError:
            return answer
        if not isinstance(found, dict) or "lacking" not in found:
            return answer
        lacking = [path for path in found["lacking"] if str(path).startswith(f"{self.mount}/")]
        return json.dumps({**found, "lacking": lacking, "interpreter": self.interpreter}).encode()


def _moved(data: bytes, here: str, there: str) -> bytes:
    """A text with one directory replaced by another."""
    return re.sub(rb"(?<![\w./-])" + re.escape(here.encode()) + rb"(?![\w.-])", lambda _: there.encode(), data)


def with_pod_environment(files: Mapping[str, bytes], **more: object) -> dict[str, bytes]:
    """Files whose spec lets the trainer inherit all variables of its container (secrets of `env_from_secret`,
    devices).
    """
    if "spec.json" not in files:
        return dict(files)
    spec = {**json.loads(files["spec.json"]), "inherit": [""], **more}
    return {**files, "spec.json": json.dumps(spec).encode()}


@dataclass(slots=True)
class _PodLog:
    """What was received of one pod's log."""

    stream: Path
    last: bytes = b""  # time of the newest line
    times: int = 0  # lines with exactly that time
    behind: bool = False  # the last answer was cut: more of it may be older than other pods' newest line
    parsed: tuple[int, log_stream.JobLog] | None = None  # size of the stream, its parsed content
    seen: DirectoryState = field(default_factory=DirectoryState)


class CarriedFiles(VolumeFiles):
    """Without a volume: files wait locally until the job is submitted, and its pod's log returns the results."""

    def __init__(self, kubectl: Kubectl, environ: Mapping[str, str], target: Target, folder: Path) -> None:
        self.root = target.text("root").rstrip("/")
        super().__init__(environ, target, self.root, str(folder / "files"))
        self.shared = False
        self.kubectl = kubectl
        self.folder = folder
        self.selector = f"{PLACE}={label_value(target.key)},{TELLS}=yes"
        self.container = "told" if target.text("workload") == "rayjob" else "runner"
        self.pods: dict[str, str] = {}  # started pod that prints the run's files -> run; set by the launcher's poll
        self.stops: dict[str, bytes] = {}  # remote directory -> stop request to pass on
        self._heard: dict[str, _PodLog] = {}
        self._newest = b""

    # -- there ---------------------------------------------------------------------------------------------------

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`. Files written before the submit go with the job; a stop request is passed on."""
        if set(files) == {"stop"}:
            self.stops[directory] = files["stop"]
            return
        more = {"told": True} if "spec.json" in files else {}
        super().put(directory, with_pod_environment(files, **more), private=private)

    def packed(self, job: Job) -> bytes:
        """All files for this job, as an archive to unpack at `/`. Raises Declined if a Secret cannot hold it."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for path in dict.fromkeys((job.directory, job.argv[-2], self._part(job.cwd), self._results(job))):
                if path and os.path.lexists(self.here(path)):
                    archive.add(self.here(path), path.lstrip("/"))
        data = out.getvalue()
        if len(data) > MOST_SECRET:
            raise Declined(
                f"the run's files have {len(data) / 1e6:.1f} MB packed, and a Secret holds 1 MiB",
                code="secret_too_large",
                hint="give the target a claim: what lies on a volume may have any size",
            )
        return data

    def _part(self, path: str) -> str:
        """The directory two levels below the root that holds a path (`<root>/code/NAME`); "" for paths outside."""
        inside = path.removeprefix(f"{self.root}/")
        return "/".join([self.root, *inside.split("/")[:2]]) if inside != path else ""

    def _results(self, job: Job) -> str:
        return f"{self.root}/results/{job.directory.rpartition('/')[2]}"

    def sent(self, job: Job) -> None:
        """Remove the local copy of secrets after they were sent."""
        Path(self.here(job.directory), "environment").unlink(missing_ok=True)

    def forget(self, run: str) -> None:
        """Discard the run's log."""
        if heard := self._heard.pop(run, None):
            heard.stream.unlink(missing_ok=True)

    # -- and back ------------------------------------------------------------------------------------------------

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`: one call for the logs of all pods of this target."""
        runs = set(self.pods.values())
        if any(want.run in runs for want in wants):
            self._listen()
        waiting = [want for want in wants if want.run not in runs and want.run not in self._heard]
        return super().look(waiting) | {want.run: self._seen(want) for want in wants if want not in waiting}

    def _listen(self) -> None:
        runs = set(self.pods.values())
        since = [b"--since-time=" + when for when in [self._since(runs)] if when]
        words = ["logs", "-l", self.selector, "-c", self.container, "--prefix", "--timestamps", "--tail=-1"]
        words += [
            "--ignore-errors",
            "--max-log-requests=100000",
            f"--limit-bytes={MOST_LOG}",
            *(word.decode() for word in since),
        ]
        pieces: dict[str, list[tuple[bytes, bytes]]] = {}
        names = b"|".join(re.escape(name.encode()) for name in self.pods)
        # Not split by lines: a carriage return is text, and a cut answer has no line feed before the next pod's.
        begins = re.compile(rb"(?=\[pod/(?:" + names + rb")/[^\]\n]*\] \d{4}-)")
        for match in filter(None, map(_LINE.match, begins.split(self.kubectl.ask(*words, timeout_s=120.0)))):
            if run := self.pods.get(match["pod"].decode()):
                pieces.setdefault(run, []).append((match["time"], match["text"]))
        for run, lines in pieces.items():
            self._of(run).behind = sum(len(when) + 1 + len(text) for when, text in lines) >= MOST_LOG // 2
            self._take(self._of(run), lines)

    def _since(self, runs: set[str]) -> bytes:
        """The time from which logs are requested, so that no missing line is older; b"" for all."""
        newest = _earlier(self._newest, OVERLAP_S) if self._newest else b""
        heard = [self._of(run) for run in runs]
        return min((one.last if one.behind or not one.last else max(one.last, newest) for one in heard), default=b"")

    def _take(self, pod_log: _PodLog, lines: list[tuple[bytes, bytes]]) -> None:
        """Append new lines; a line without end yet comes again."""
        again = pod_log.times
        with pod_log.stream.open("ab") as stream:
            for when, text in lines:
                if when < pod_log.last or not text.endswith(b"\n"):
                    continue
                if when == pod_log.last and again > 0:
                    again -= 1
                    continue
                pod_log.times = pod_log.times + 1 if when == pod_log.last else 1
                pod_log.last, again = when, 0
                stream.write(text)
        self._newest = max(self._newest, pod_log.last)

    def _of(self, run: str) -> _PodLog:
        if run not in self._heard:
            stream = self.folder / "heard" / run
            stream.parent.mkdir(parents=True, exist_ok=True)
            stream.unlink(missing_ok=True)  # left by another Follower: the pod's log is read from its beginning
            self._heard[run] = _PodLog(stream)
        return self._heard[run]

    def _seen(self, want: Want) -> DirectoryState:
        heard = self._heard.get(want.run)
        if heard is None or not heard.stream.exists():
            return DirectoryState()
        size = heard.stream.stat().st_size
        if heard.parsed is None or heard.parsed[0] != size:
            heard.parsed = size, log_stream.read(heard.stream.read_bytes(), want.run)
        return heard.parsed[1].seen(want.offsets, PIECE)


def _earlier(when: bytes, seconds: float) -> bytes:
    """The time stamp of a log line, moved back by so many seconds."""
    from datetime import datetime, timedelta

    moment = datetime.fromisoformat(re.sub(r"\.\d+", "", when.decode()))
    return (moment - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def secret(name: str, labels: Mapping[str, str], owner: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """The Secret that carries a run's files; owned by the job, it is deleted with it."""
    about = {key: owner[key] for key in ("apiVersion", "kind")} | {
        key: owner["metadata"][key] for key in ("name", "uid")
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": dict(labels), "ownerReferences": [about]},
        "data": {"files.tgz": base64.b64encode(data).decode()},
    }
