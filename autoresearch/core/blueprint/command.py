"""The launch command of a blueprint: separated from surrounding prose; several commands are an error, not a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoresearch.core.blueprint.document import SourceLine
from autoresearch.core.blueprint.items import LabelRole, SectionItem, label_of, with_role
from autoresearch.core.blueprint.values import (
    CODE_SPAN,
    SectionValue,
    Unclear,
    described,
    means_nothing,
    without_examples,
)

_STARTERS = frozenset({  # programs that commonly begin a command line in this field
    "python", "python3", "bash", "sh", "zsh", "torchrun", "accelerate", "deepspeed", "uv", "uvx", "ray",
    "env", "cd", "export", "source", "nohup", "ajet", "ajet-swarm", "srun", "sbatch", "salloc", "conda",
    "mamba", "micromamba", "poetry", "pipenv", "pixi", "trl", "exec", "sleep", "printf", "cat", "seq",
    "touch", "mkdir", "ls", "timeout", "stdbuf", "numactl", "taskset", "nice", "ionice", "ssh", "kubectl",
    "docker", "podman", "apptainer", "singularity", "node", "npm", "npx", "cargo", "julia", "Rscript",
    "perl", "ruby", "java", "mpirun", "mpiexec", "horovodrun", "ulimit", "unset", "cp", "mv", "ln", "tar",
    "wget", "curl", "git", "pip", "pip3", "rm", "eval", "tee", "xargs", "setsid", "sudo", "pkill",
    "killall", "tmux",
})  # fmt: skip
_WORDS_TOO = frozenset({  # also words that begin sentences: they need shell syntax, an assignment, or a short line
    "time", "set", "echo", "true", "false", "test", "for", "while", "until", "if", "trap", "date", "make",
    "go", "read", "wait", "kill", "yes", "swift", "exit", "screen",
})  # fmt: skip
_STOPWORDS = frozenset({
    "the", "a", "an", "this", "that", "use", "using", "run", "start", "to", "we", "you", "see", "please",
    "and", "with", "in", "it", "note", "default", "of", "by", "as", "or", "on", "is", "train", "training",
    "launch", "first", "then", "just", "our", "your", "when", "each", "all", "any", "command",
})  # fmt: skip
_WORD = re.compile(r"[\w./~$@{}+-]+")
_ASSIGN = re.compile(r"^[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|[^\s;&|]*)(?=\s|$|;)\s*;?\s*")
_STRUCTURE = re.compile(r"\s&&\s|\s--?\w|\s\|\s|\s\\$|;\s|\$\w|\w/\w|\s>\s?")
_CONSOLE = frozenset({"console", "shell-session", "shellsession", "terminal"})
_RUNNABLE = (frozenset({"bash", "sh", "shell", "zsh"}) | _CONSOLE, frozenset({""}), frozenset({"text"}))


def looks_like_command(text: str) -> bool:
    """Whether a line is a shell command rather than a sentence."""
    line = text.strip()
    assigned = False
    while match := _ASSIGN.match(line):
        line, assigned = line[match.end() :], True
    match = _WORD.match(line)
    if match is None:
        return (line[:1] in "({[" and bool(re.search(r"[;&|]", line))) or (assigned and not line)
    word = match.group()
    if line[match.end() : match.end() + 1] not in ("", " ", "\t", ";", "\\", "|", "&", "<", ">", "\n"):
        return False
    name = word.rsplit("/", 1)[-1]
    structured = bool(_STRUCTURE.search(line))
    if re.search(r"[。，]|\w\.\s*$", line.split("#")[0]) and not re.search(r"\s--?\w|/\w", line):
        return False  # it ends like a sentence
    if name in _STARTERS or re.fullmatch(r"python[\d.]*|\S+\.(?:sh|bash|py)", name):
        return True
    if name in _WORDS_TOO:
        return structured or assigned or len(line.split()) <= 3
    if word.startswith(("./", "/", "~/")):
        return True
    ours = word.lower() not in _STOPWORDS and word[:1].islower() and word.isascii()
    return (assigned or structured) and ours


def command_in(items: Sequence[SectionItem]) -> SectionValue | Unclear | None:
    """The launch command of the section; Unclear if there are several, None if there is none."""
    for role in (LabelRole.VALUE, LabelRole.CONTENT, LabelRole.PLAIN):
        found = _among(list(with_role(items, role)))
        found = [v for v in found if v.text.strip() and ("\n" in v.text or not means_nothing(v.text))]
        if role is LabelRole.VALUE and len(found) == 1 and not looks_like_command(found[0].text):
            below = _among([i for i in with_role(items, LabelRole.PLAIN) if i.code])
            found = below or found  # `- command: see below`, and a code block below
        bare = [v for v in found if not v.explained]
        found = bare if len(bare) == 1 else found  # the only one that stands alone wins over those quoted in prose
        if len(found) > 1:
            where = ", ".join(str(v.line) for v in found[:5])
            message = f"[exp_launch_command] holds {len(found)} commands (lines {where})"
            hint = "keep one; others can be joined with && or go to `prepare:` in the notes"
            return Unclear(found[1].line, message, hint)
        if found:
            return found[0]
    return next(iter(_among(described(items))), None)


def _among(items: Sequence[SectionItem]) -> list[SectionValue]:
    """The commands of these items; code blocks marked as shell win over unmarked blocks, those over `text` blocks."""
    blocks = [b for i in items for b in i.code if any(n.text.strip() for n in b)]
    for infos in _RUNNABLE:
        if runnable := [b for b in blocks if b[0].info in infos]:
            quoted = [v for i in items if not i.code for v in _commands(i) if not v.explained]
            return [_code(block) for block in runnable] + quoted
    return [v for i in items for v in _commands(i)]


def _commands(item: SectionItem) -> list[SectionValue]:
    """The commands in the text of one item: the value of its key, or commands in its prose."""
    prose = [(no, text) for no, text in item.prose]
    whole = "\n".join(text for _, text in prose).strip()
    if not whole:
        return []
    if (span := CODE_SPAN.fullmatch(whole)) and "`" not in span[2]:
        return [SectionValue(span[2].strip(), (prose[0][0],))]
    if item.role is LabelRole.VALUE:
        if whole.endswith((":", "：")) and len(prose) == 1:
            return []
        return [SectionValue(_unbulleted(whole), tuple(no for no, text in prose if text.strip()))]
    if found := _run_of_lines(prose):
        return [found]
    said = [(no, without_examples(text)) for no, text in prose]
    spans = [(no, s[2].strip()) for no, text in said for s in CODE_SPAN.finditer(text)]
    return [SectionValue(text, (no,), (), True) for no, text in spans if looks_like_command(text)]


def _code(block: list[SourceLine]) -> SectionValue:
    texts = [n.text for n in block]
    full = [n.no for n in block if n.text.strip()]
    if block[0].info in _CONSOLE and next(t for t in texts if t.strip()).lstrip().startswith("$ "):
        texts = [re.sub(r"^\s*\$ ", "", t) for t in texts]
    first, last = full[0] - block[0].no, full[-1] - block[0].no
    return SectionValue("\n".join(texts[first : last + 1]), tuple(range(full[0], full[-1] + 1)))


def _run_of_lines(prose: Sequence[tuple[int, str]]) -> SectionValue | None:
    """The first line of a paragraph that is a command, with its continuation lines."""
    taken: list[tuple[int, str]] = []
    margin, explained = 0, False
    for no, text in prose:
        if not taken:
            label, rest = label_of(text)
            behind = bool(label) and looks_like_command(rest)
            if not behind and not looks_like_command(text):
                explained = explained or bool(text.strip())
                continue
            taken.append((no, rest if behind and not looks_like_command(text) else text.strip()))
            margin, explained = len(text) - len(text.lstrip()), explained or behind
            continue
        joined = re.search(r"(?:\\|&&|\|\|?|;|\bdo|\bthen)\s*$", taken[-1][1])
        deeper = len(text) - len(text.lstrip()) > margin
        if not joined and not (text.strip() and (deeper or looks_like_command(text))):
            break
        taken.append((no, text[margin:] if text[:margin].isspace() else text))
    if not taken:
        return None
    whole = "\n".join(text for _, text in taken).strip()
    return SectionValue(whole, tuple(no for no, _ in taken), (), explained)


def _unbulleted(text: str) -> str:
    """Strip the bullet of a one-line `- python x` below `- command:`."""
    bullet = re.match(r"[-*]\s+(?=[^-\s])", text)
    return text[bullet.end() :] if bullet and "\n" not in text else text
