"""The values of the sections as they are written: purpose, paths and launch command.

Each is separated from the labels, prose and quotes around it; nothing is expanded. Several commands are an error,
not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoresearch.core.blueprint.document import Document, LabelRole, Section, SectionItem, SourceLine
from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.items import label_of, with_role
from autoresearch.core.blueprint.model import SECTION_KINDS
from autoresearch.core.text.regex import later

_PATHS = tuple(kind.name for kind in SECTION_KINDS if kind.is_path)
_MAX_COMMAND_BYTES = 131072  # Linux: the longest single argument of a program (MAX_ARG_STRLEN)
_NOTHING = later(
    r"^(?:n/?a|none|null|nil|nothing|not (?:needed|applicable)|tbd|todo|无|没有|不需要|未定|-+)"
    r"(?=$|[\s,，。;；:(（]|\.(?:\s|$))",
    re.IGNORECASE,
)
_EXAMPLE = later(r"(?:\be\.?g\b|\bfor example\b|\bsuch as\b|例如|比如|示例).*", re.IGNORECASE)
_CODE_SPAN = later(r"(?<!`)(`{1,3})(?!`)([^`\n]+)(?<!`)\1(?!`)")
_START = later(r"^(?:~|\.{1,2})?/|^\.{1,2}$")
_WHOLE = later(r"[\w.+@%=,-]+(?:/[\w.+@%=,-]*)+|[\w.-]+\.(?:ya?ml|json|toml)|python[\d.]*|auto")
_TOKEN = later(
    r"(?<![A-Za-z0-9_/.:~-])"
    r"((?:~|\.{1,2})?/(?!/)[A-Za-z0-9_.+@%=,:/~${}-]*[A-Za-z0-9_/}]|[\w.-]+(?:/[\w.-]+)*\.ya?ml)"
)
_BARE = later(r"[\"'*]{0,2}(?:~[\w.-]*|\.{1,2})?/(?!/)")
_SENTENCE = later(  # words and punctuation of a sentence after a path; file names with spaces do not contain them
    r"[,;:!?，。；：！？.](?:\s|$)|\s[-–—]{1,2}\s|\s/|[(（](?!\d+[)）])|\s(?:是|为|在|用于|存放|其中)"
    r"|\s(?:is|are|was|were|will|has|have|holds?|contains?|lies|which|that|where|with|on|in|at|for|from|and|or"
    r"|the|an?|as|to|by|of|its?|this|see|not|but|if|then)(?=\s|$)",
    re.IGNORECASE,
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
_WORD = later(r"[\w./~$@{}+-]+")
_ASSIGN = later(r"^[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|[^\s;&|]*)(?=\s|$|;)\s*;?\s*")
_STRUCTURE = later(r"\s&&\s|\s--?\w|\s\|\s|\s\\$|;\s|\$\w|\w/\w|\s>\s?")
_CONSOLE = frozenset({"console", "shell-session", "shellsession", "terminal"})
_RUNNABLE = (frozenset({"bash", "sh", "shell", "zsh"}) | _CONSOLE, frozenset({""}), frozenset({"text"}))


@dataclass(frozen=True, slots=True)
class SectionValue:
    """A value, its lines, and warnings about it."""

    text: str
    lines: tuple[int, ...]
    findings: tuple[Finding, ...] = ()
    explained: bool = False  # the same item also has explaining words

    @property
    def line(self) -> int:
        """The first of its lines."""
        return self.lines[0]


def read_values(document: Document) -> tuple[dict[str, SectionValue], list[Finding]]:
    """section -> its value, for all sections that have one except [exp_max_time]; a path that says NA is "" here."""
    sections = document.named
    values: dict[str, SectionValue] = {}
    findings: list[Finding] = []
    if section := sections.get("exp_purpose"):
        if value := _purpose(section.items):
            values["exp_purpose"] = value
        else:
            hint = "say what the experiment is for and how it differs from the others"
            findings.append(warning(section.line, "no_explanation", "[exp_purpose] says nothing", hint))
    for key in _PATHS:
        if key in sections and (path := _path(sections[key].items)):
            values[key] = replace(path, text="") if means_nothing(path.text) else path
            findings += path.findings
            if "\n" in path.text:
                message = f"the path in [{key}] goes over {path.text.count(chr(10)) + 1} lines"
                findings.append(error(path.line, "path_of_lines", message, "keep one line"))
    command, problems = _launch_command(sections.get("exp_launch_command"))
    if command:
        values["exp_launch_command"] = command
    return values, findings + problems


def means_nothing(text: str) -> bool:
    """Whether a text means that there is no value: NA, none, null, 无 ..."""
    return bool(_NOTHING.match(text.strip()))


def _without_examples(text: str) -> str:
    """A sentence up to `e.g.` or `例如`: an example is not a value."""
    return _EXAMPLE.sub("", text)


def _described(items: Sequence[SectionItem]) -> list[SectionItem]:
    """The `description:` items, in which people put the value if they use no other key."""
    return [i for i in items if _describes(i)]


def _describes(item: SectionItem) -> bool:
    return item.role is LabelRole.TEXT and item.label.startswith(("desc", "描述"))


def _purpose(items: Sequence[SectionItem]) -> SectionValue | None:
    """The text of `purpose:` if given, else all of the section except hints; None if empty."""
    chosen = [i for i in with_role(items, LabelRole.VALUE) if i.text]
    if not chosen:
        chosen = [i for i in items if i.text and (i.role is not LabelRole.TEXT or _describes(i))]
    if not chosen:
        return None
    parts = [i.text if i.prose else "\n".join(n.text for n in i.more).strip("\n") for i in chosen]
    lines = {n for i in chosen for n in [i.line, *(m.no for m in i.more)]}
    return SectionValue("\n".join(parts).strip(), tuple(sorted(lines)), (), True)


def _looks_like_path(text: str) -> bool:
    """Whether a text is a path rather than words."""
    return bool(_START.match(text) or (not re.search(r"\s", text) and _WHOLE.fullmatch(text)))


def _is_path(text: str) -> bool:
    """Whether a text is a path as it stands, says that there is none, or can be nothing else."""
    return _looks_like_path(text) or means_nothing(text)


def _path(items: Sequence[SectionItem]) -> SectionValue | None:
    """The path that a section names: with its key, as a `content`, in a code block, in prose; None if there is none."""
    typed = [value for item in with_role(items, LabelRole.VALUE) if (value := _typed_path(item))]
    contents = [value for item in with_role(items, LabelRole.CONTENT) if (value := _typed_path(item))]
    typed += [value for value in contents if _is_path(value.text)]
    typed += [value for value in contents if not re.search(r"\s", value.text)]
    if typed:
        return typed[0]
    plain = list(with_role(items, LabelRole.PLAIN, LabelRole.CONTENT))
    if block := next((block for item in plain for block in item.code[:1]), None):
        return _block_path(block)
    lines = (line for item in [*plain, *_described(items)] for line in item.prose)
    return next((path for no, text in lines if (path := _path_in_prose(text.strip(), no))), None)


def _typed_path(item: SectionItem) -> SectionValue | None:
    """The path after a label such as `dir:`, which may contain spaces, or the one in `the code lives in /mnt/x`."""
    if item.code and not item.first:
        return _block_path(item.code[0])
    no, text = next(((no, text) for no, text in item.prose if text.strip()), (0, ""))
    value = _cleaned(text, no) if text else None
    if value is None or text.strip()[0] in "`\"'*" or _is_path(value.text) or not re.search(r"\s", value.text):
        return value
    path = _path_in_prose(value.text, value.line)
    return path if path and _START.match(path.text) else value


def _block_path(block: list[SourceLine]) -> SectionValue | None:
    full = [n for n in block if n.text.strip()]
    return SectionValue("\n".join(n.text for n in full), tuple(n.no for n in full)) if full else None


def _cleaned(raw: str, no: int) -> SectionValue | None:
    """A path without surrounding quotes, trailing comment or trailing parenthesis."""
    text = raw.strip()
    if span := _CODE_SPAN.match(text) or re.match(r"(\*\*|\"|')(.+?)\1(?=\s|$|[,，。;；(（])", text):
        inner = span[2].strip() if span[1].startswith("`") else span[2]
        return SectionValue(inner, (no,), (), bool(text[span.end() :].strip(" .。")))
    findings: list[Finding] = []
    for code, pattern in (
        ("inline_comment", r"(?<=\S)\s+#(?:\s.*)?$"),
        ("trailing_remark", r"(?<=\S)\s*[(（](?!\d+[)）])[^()（）]*[)）]\s*$"),
    ):
        shorter = re.sub(pattern, "", text)
        if shorter != text and shorter:
            what = "the comment" if code == "inline_comment" else "the remark in parentheses"
            findings.append(_doubt(no, code, f"{what} behind the path is not taken as a part of it: {shorter}"))
            text = shorter
    text = text.rstrip("。；，;")
    return SectionValue(text, (no,), tuple(findings), bool(findings)) if text else None


def _bare(text: str, no: int) -> SectionValue | None:
    """The path that a line begins with: the whole line unless a sentence follows; None if it begins with no path."""
    value = _cleaned(text, no) if _BARE.match(text) else None
    if value is None or not re.search(r"\s", value.text):
        return value
    if text[0] in "\"'*" or not _SENTENCE.search(value.text):
        return value
    path = value.text.split()[0].rstrip(".,:;，。；：")
    return SectionValue(path, (no,), (*value.findings, _cut(path, no)), True)


def _doubt(line: int, code: str, message: str) -> Finding:
    return warning(line, code, message, "put the path in backquotes if that belongs to it")


def _cut(path: str, no: int) -> Finding:
    return _doubt(no, "path_cut", f"words follow, so the path ends at the space: {path}")


def _path_in_prose(text: str, no: int) -> SectionValue | None:
    """The path that a line of prose names; None if it names none."""
    if not text:
        return None
    if means_nothing(text):
        return SectionValue("NA", (no,), (), len(text) > 6)
    label, rest = label_of(text)
    if label and rest and (means_nothing(rest) or _looks_like_path(rest.strip("`\"' "))):
        path = _cleaned(rest, no)
        if path and not re.search(r"\s", path.text):
            return SectionValue(path.text, path.lines, path.findings, True)
    if bare := _bare(text, no):
        return bare
    sentence = _without_examples(text)
    for span in _CODE_SPAN.finditer(sentence):
        if _looks_like_path(span[2].strip()):
            return SectionValue(span[2].strip(), (no,), (), sentence.strip() != span.group())
    if _looks_like_path(sentence) and not re.search(r"\s", sentence):
        return SectionValue(sentence.rstrip("。；，;"), (no,))
    if token := _TOKEN.search(sentence):
        name = token[1].rstrip(".,:")
        cut = re.match(r" [^\s/:]+/", sentence[token.end() :])  # `in /data/my code/x`
        return SectionValue(name, (no,), (_cut(name, no),) if cut else (), True)
    return None


def _launch_command(section: Section | None) -> tuple[SectionValue | None, list[Finding]]:
    """The launch command, with an error if there is none, if there are several, or if it is too long."""
    hint = "write it as `- command: python -m ...` or in a fenced code block"
    if section is None:
        return None, [error(0, "missing_command", "there is no [exp_launch_command]", hint)]
    commands = _commands_in(section.items)
    if len(commands) > 1:
        where = ", ".join(str(command.line) for command in commands[:5])
        message = f"[exp_launch_command] holds {len(commands)} commands (lines {where})"
        hint = "keep one; others can be joined with && or go to `prepare:` in the notes"
        return None, [error(commands[1].line, "many_commands", message, hint)]
    if not commands:
        return None, [error(section.line, "missing_command", "[exp_launch_command] holds no command", hint)]
    size = len(commands[0].text.encode())
    if size < _MAX_COMMAND_BYTES:
        return commands[0], []
    message = f"the launch command has {size} bytes, more than a shell takes"
    return commands[0], [error(commands[0].line, "long_command", message, "use a script")]


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


def _commands_in(items: Sequence[SectionItem]) -> list[SectionValue]:
    """The commands of the section in the first kind of item that has any; more than one is for the author to solve."""
    for role in (LabelRole.VALUE, LabelRole.CONTENT, LabelRole.PLAIN):
        values = _among(list(with_role(items, role)))
        values = [v for v in values if v.text.strip() and ("\n" in v.text or not means_nothing(v.text))]
        if role is LabelRole.VALUE and len(values) == 1 and not looks_like_command(values[0].text):
            below = _among([i for i in with_role(items, LabelRole.PLAIN) if i.code])
            values = below or values  # `- command: see below`, and a code block below
        bare = [v for v in values if not v.explained]
        values = bare if len(bare) == 1 else values  # the only one that stands alone wins over those quoted in prose
        if values:
            return values
    return _among(_described(items))[:1]


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
    if (span := _CODE_SPAN.fullmatch(whole)) and "`" not in span[2]:
        return [SectionValue(span[2].strip(), (prose[0][0],))]
    if item.role is LabelRole.VALUE:
        if whole.endswith((":", "：")) and len(prose) == 1:
            return []
        return [SectionValue(_unbulleted(whole), tuple(no for no, text in prose if text.strip()))]
    if command := _run_of_lines(prose):
        return [command]
    sentences = [(no, _without_examples(text)) for no, text in prose]
    spans = [(no, s[2].strip()) for no, text in sentences for s in _CODE_SPAN.finditer(text)]
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
