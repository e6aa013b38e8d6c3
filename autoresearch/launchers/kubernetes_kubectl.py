"""Calls kubectl and classifies its failures: unreachable, declined, or already existing. The only file that
starts it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.job_launcher import Declined, ProgramOutput, Unreachable
from autoresearch.core.run.targets import Target

ANSWER_S = 30.0
MOST_SAID = 256 << 20  # a namespace with a thousand jobs lists 20 MiB
_NO = re.compile(r"Error from server \((\w+)\)")
_REFUSING = {"Invalid", "BadRequest", "NotFound", "MethodNotAllowed", "RequestEntityTooLarge", "UnsupportedMediaType"}
_REFUSED = re.compile(
    r"strict decoding error|unknown field|no matches for kind|exceeded quota|denied the request|violates PodSecurity"
)
_LOGIN = re.compile(r"You must be logged in|provide credentials|enter Username|getting credentials|Unauthorized")
_CONFIG = re.compile(
    r'context "[^"]*" does not exist|context was not found'
    r"|no configuration has been provided|[Ii]nvalid configuration|error loading"
)
_CONFIG_FILE = re.compile(r"error: (?:stat|open) [^\n]*: no such file")
_CERTIFICATE = re.compile(r"x509: |certificate ")
_WARNING = re.compile(r"^Warning: .*\n?", re.M)  # from the server, about something it accepts all the same
_LEAD = re.compile(r"^(?:Error from server \(\w+\): |error: )?(?:error (?:when creating|validating) [^:]*: )*")
LOGIN_HINT = "log in to the cluster again, or correct the target's context or kubeconfig"


class AlreadyThere(Exception):  # noqa: N818 - as `core.run.job_launcher` names its own
    """An object of that name exists."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl for one target: its namespace, context and kubeconfig."""

    flags: tuple[str, ...]
    environ: Mapping[str, str]

    @classmethod
    def of(cls, target: Target, environ: Mapping[str, str]) -> Kubectl:
        """The kubectl that a target's options describe."""
        given = {option: target.text(option) for option in ("kubeconfig", "context", "namespace")}
        return cls(tuple(f"--{option}={value}" for option, value in given.items() if value), environ)

    def run(self, *words: str, stdin: bytes = b"", timeout_s: float = ANSWER_S) -> ProgramOutput:
        """Its output and exit code. Raises Unreachable after `timeout_s`; a missing kubectl gives exit code 127."""
        argv = ["kubectl", *self.flags, f"--request-timeout={timeout_s * 0.8:.0f}s", *words]
        try:
            said = subprocess.run(
                argv, input=stdin, capture_output=True, timeout=timeout_s, check=False, env=dict(self.environ)
            )
        except FileNotFoundError:
            return ProgramOutput(127, b"", b"kubectl is not on PATH")
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"kubectl gave no answer within {timeout_s:.0f} s") from error
        return ProgramOutput(said.returncode, said.stdout[:MOST_SAID], said.stderr[: 1 << 20])

    def ask(self, *words: str, stdin: bytes = b"", timeout_s: float = ANSWER_S) -> bytes:
        """Its stdout; raises Unreachable, Declined or AlreadyThere if it failed."""
        said = self.run(*words, stdin=stdin, timeout_s=timeout_s)
        if said.returncode != 0:
            raise meaning(said)
        return said.out


def parsed(printed: bytes) -> dict[str, Any]:
    """The object that kubectl printed, after anything a wrapper printed; raises Unreachable without one."""
    try:
        found: dict[str, Any] = json.loads(printed[printed.index(b"{") :])
        return found
    except ValueError:
        words = sentence_of(printed[:4096].decode("utf-8", "replace"))
        raise Unreachable(f"kubectl printed no object: {words or 'nothing'}", code="odd_answer") from None


def meaning(output: ProgramOutput) -> Unreachable | Declined | AlreadyThere:
    """Classify a failed kubectl. Only a clear refusal by the server is Declined; all else says nothing about a run."""
    text = _WARNING.sub("", (output.err or output.out).decode("utf-8", "replace")).strip()
    sentence = f"kubectl: {sentence_of(text) or output.complaint}"
    reasons: Sequence[str] = _NO.findall(text)
    if output.returncode == 127:
        return Unreachable("kubectl is not on PATH", code="no_kubectl", hint="install kubectl")
    if "AlreadyExists" in reasons:
        return AlreadyThere(sentence)
    if _REFUSED.search(text):
        return Declined(sentence, code="kubernetes_refused", hint=_hint(text))
    if "Forbidden" in reasons or "Unauthorized" in reasons or _LOGIN.search(text):
        hint = "ask for the right to do this in the namespace" if "Forbidden" in reasons else LOGIN_HINT
        return Unreachable(sentence, code="unauthorized", hint=hint)
    if _REFUSING.intersection(reasons):
        return Declined(sentence, code="kubernetes_refused", hint=_hint(text))
    if _CONFIG.search(text) or _CONFIG_FILE.search(text):
        return Unreachable(sentence, code="bad_kubeconfig", hint="correct the target's kubeconfig or context")
    if _CERTIFICATE.search(text):
        return Unreachable(sentence, code="untrusted", hint="its certificate is not the one that was expected")
    return Unreachable(sentence)


def _hint(text: str) -> str:
    if "no matches for kind" in text:
        return "install KubeRay in the cluster, or use `workload: job`"
    if re.search(r'namespaces "[^"]*" not found', text):
        return "correct the target's namespace"
    return ""


def sentence_of(text: str) -> str:
    """The last meaningful line, without kubectl's prefixes."""
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"[EIW]\d{4} ", line)]
    return _LEAD.sub("", lines[-1].strip())[:400] if lines else ""
