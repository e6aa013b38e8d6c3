"""What a section says: its one value (a path, a command, a text) among labels, prose and code blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.blueprint_items import Item, Role, label_of, with_role
from autoresearch.core.blueprint_text import Line

_NOTHING = re.compile(
    r"^(?:n/?a|none|null|nil|nothing|not (?:needed|applicable)|tbd|todo|无|没有|不需要|未定|-+)(?=$|[\s,，。.;；:(（])",
    re.IGNORECASE,
)
_PATH_START = re.compile(r"^(?:~|\.{1,2})?/|^\.{1,2}$")
_PATH_WHOLE = re.compile(
    r"[\w.+@%=,-]+(?:/[\w.+@%=, -]*)*/[\w.+@%=,-]*|[\w.-]+\.(?:ya?ml|json|toml)|python[\d.]*|auto"
)
_PATH_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_/.:~-])((?:~|\.{1,2})?/(?!/)[A-Za-z0-9_.+@%=,:/~${}-]*[A-Za-z0-9_/}]|[\w.-]+(?:/[\w.-]+)*\.ya?ml)"
)
_EXAMPLE = re.compile(r"(?:\be\.?g\b|\bfor example\b|\bsuch as\b|例如|比如|示例).*", re.IGNORECASE)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_STARTERS = set(
    "python python3 bash sh zsh torchrun accelerate deepspeed uv uvx ray env cd export source nohup ajet ajet-swarm "
    "srun sbatch salloc make conda mamba micromamba poetry pipenv pixi trl time exec set sleep echo true false test "
    "printf cat seq for while until if trap touch mkdir ls date timeout stdbuf numactl taskset nice ionice ssh kubectl "
    "docker podman apptainer singularity node npm npx go cargo julia Rscript perl ruby java mpirun mpiexec horovodrun "
    "swift ulimit unset cp mv ln tar wget curl git pip pip3 rm eval read wait kill yes tee xargs setsid sudo".split()
)
_STOPWORDS = set(
    "the a an this that use using run start to we you see please and for with in it note default of by as or on is "
    "train training launch first then just our your if when each all any command".split()
)
_WORD = re.compile(r"[\w./~$@{}+-]+")
_ASSIGN = re.compile(r"^[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|[^\s;&|]*)(?=\s|$|;)\s*;?\s*")
_RUNNABLE = {"", "bash", "sh", "shell", "zsh", "console", "shell-session", "shellsession", "terminal", "cmd", "text"}
_CONSOLE = {"console", "shell-session", "shellsession", "terminal"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value, the lines it stands in, and remarks: (line, code, message) for a warning."""

    text: str
    lines: tuple[int, ...]
    remarks: tuple[tuple[int, str, str], ...] = ()
    explained: bool = False  # some words stand beside it in the same item

    @property
    def line(self) -> int:
        return self.lines[0]


@dataclass(frozen=True, slots=True)
class Unclear:
    """Several readings; a person must choose. `message` is one sentence."""

    line: int
    message: str
    hint: str


def means_nothing(text: str) -> bool:
    """Whether a value says that there is none: NA, none, null, 无 ..."""
    return bool(_NOTHING.match(text.strip()))


def looks_like_path(text: str) -> bool:
    return bool(_PATH_START.match(text) or (not re.search(r"\s", text) and _PATH_WHOLE.fullmatch(text)))


def looks_like_command(text: str) -> bool:
    """Whether a line of prose is a shell command rather than a sentence about one."""
    line = text.strip()
    assigned = False
    while match := _ASSIGN.match(line):
        line, assigned = line[match.end() :], True
    match = _WORD.match(line)
    if match is None:
        return line[:1] in "({[" and bool(re.search(r"[;&|]|&&", line)) or (assigned and not line)
    word = match.group()
    if line[match.end() : match.end() + 1] not in ("", " ", "\t", ";", "\\", "|", "&", "<", ">", "\n"):
        return False
    name = word.rsplit("/", 1)[-1]
    if name in _STARTERS or re.fullmatch(r"python[\d.]*|\S+\.(?:sh|bash|py)", name) or word.startswith(("./", "/", "~/")):
        return not re.search(r"[。，]|\w\.\s*$", line.split("#")[0]) or bool(re.search(r"\s--?\w|/\w", line))
    shell = re.search(r"\s&&\s|\s--?\w|\s\|\s|\s\\$|;\s", line)
    return bool(assigned or shell) and word.lower() not in _STOPWORDS and word[:1].islower() and word.isascii()


def purpose(items: Sequence[Item]) -> Value | None:
    """The purpose: `purpose:` alone where it is given, else all that was written except hints."""
    chosen = [i for i in with_role(items, Role.VALUE) if i.text]
    if not chosen:
        chosen = [i for i in items if i.text and (i.role is not Role.TEXT or i.label.startswith(("desc", "描述")))]
    if not chosen:
        return None
    parts = ["\n".join(n.text for n in i.code[0]).strip("\n") if i.code and not i.prose else i.text for i in chosen]
    lines = [n for i in chosen for n in [i.line, *(m.no for m in i.more)]]
    return Value("\n".join(parts).strip(), tuple(sorted(set(lines))), (), True)


def path(items: Sequence[Item]) -> Value | None:
    """The path of a section; None where nothing in it is one."""
    for item in with_role(items, Role.VALUE):
        if value := _typed_path(item):
            return value
    contents = [v for i in with_role(items, Role.CONTENT) if (v := _typed_path(i)) is not None]
    for value in [*(v for v in contents if looks_like_path(v.text) or means_nothing(v.text)), *contents]:
        if looks_like_path(value.text) or means_nothing(value.text) or not re.search(r"\s", value.text):
            return value
    plain = list(with_role(items, Role.PLAIN, Role.CONTENT))
    for item in plain:
        if block := next(iter(item.code), None):
            return _block_path(block)
    described = [i for i in with_role(items, Role.TEXT) if i.label.startswith(("desc", "描述"))]
    for item in [*plain, *described]:
        for no, text in item.prose:
            if found := _path_in(text.strip(), no):
                return found
    return None


def _typed_path(item: Item) -> Value | None:
    """The path behind `dir:`; whole, so that it may hold spaces."""
    if item.code and not item.first:
        return _block_path(item.code[0])
    for no, text in item.prose:
        if text.strip():
            return _cleaned(text, no)
    return None


def _block_path(block: list[Line]) -> Value | None:
    full = [n for n in block if n.text.strip()]
    if not full:
        return None
    return Value("\n".join(n.text for n in full), tuple(n.no for n in full))


def _cleaned(raw: str, no: int) -> Value | None:
    """A path without the quotes, comment or parenthesis around it."""
    text = raw.strip()
    if (span := _SPAN.match(text)) or (span := re.match(r"(\*\*|\"|')(.+?)\1(?=\s|$|[,，。;；(（])", text)):
        inner = span[2].strip() if span[1].startswith("`") else span[2]
        return Value(inner, (no,), (), bool(text[span.end() :].strip(" .。")))
    remarks: list[tuple[int, str, str]] = []
    for code, pattern in (("inline_comment", r"\s+#(?:\s.*)?$"), ("trailing_remark", r"\s*[(（](?!\d+[)）])[^()（）]*[)）]\s*$")):
        shorter = re.sub(pattern, "", text)
        if shorter != text and shorter:
            what = "the comment" if code == "inline_comment" else "the remark in parentheses"
            remarks.append((no, code, f"{what} behind the path is not taken as a part of it: {shorter}"))
            text = shorter
    text = text.rstrip("。；，;")
    return Value(text, (no,), tuple(remarks), bool(remarks)) if text else None


def _path_in(text: str, no: int) -> Value | None:
    """The path that a line of prose names."""
    if not text:
        return None
    if means_nothing(text):
        return Value("NA", (no,), (), len(text) > 6)
    label, rest = label_of(text)
    if label and rest and (means_nothing(rest) or looks_like_path(rest.strip("`\"' "))):
        found = _cleaned(rest, no)
        return Value(found.text, found.lines, found.remarks, True) if found else None
    said = _EXAMPLE.sub("", text)
    for span in _SPAN.finditer(said):
        if looks_like_path(span[2].strip()):
            return Value(span[2].strip(), (no,), (), said.strip() != span.group())
    if looks_like_path(said) and not re.search(r"\s", said):
        return Value(said.rstrip("。；，;"), (no,))
    if token := _PATH_TOKEN.search(said):
        return Value(token[1].rstrip(".,:"), (no,), (), True)
    return None


def command(items: Sequence[Item]) -> Value | Unclear | None:
    """The launch command; never a sentence about it, never one of several."""
    for role in (Role.VALUE, Role.CONTENT, Role.PLAIN):
        found = [v for i in with_role(items, role) for v in _commands(i)]
        found = [v for v in found if v.text.strip() and not means_nothing(v.text)]
        if role is Role.VALUE and len(found) == 1 and not looks_like_command(found[0].text):
            below = [v for i in with_role(items, Role.PLAIN) if i.code for v in _commands(i)]
            found = below or found  # `- command: see below`, and a code block below
        if role is Role.PLAIN and len({v.lines for v in found}) > 1:
            fenced = [v for v in found if not v.explained]
            found = fenced if len(fenced) == 1 else found
        if len(found) > 1:
            where = ", ".join(str(v.line) for v in found[:5])
            hint = "keep one; others can be joined with && or go to `prepare:` in the notes"
            return Unclear(found[1].line, f"[exp_launch_command] holds {len(found)} commands (lines {where})", hint)
        if found:
            return found[0]
    described = [i for i in with_role(items, Role.TEXT) if i.label.startswith(("desc", "描述"))]
    return next((v for i in described for v in _commands(i)), None)


def _commands(item: Item) -> list[Value]:
    """The commands that one item holds: its code, what its key gives, or what its prose quotes."""
    runnable = [b for b in item.code if b and b[0].info in _RUNNABLE]
    if runnable:
        return [_code(block) for block in runnable if any(n.text.strip() for n in block)]
    prose = [(no, text) for no, text in item.prose]
    whole = "\n".join(text for _, text in prose).strip()
    if not whole:
        return []
    if (span := _SPAN.fullmatch(whole)) and "`" not in span[2]:
        return [Value(span[2].strip(), (prose[0][0],))]
    if item.role is Role.VALUE:
        if whole.endswith((":", "：")) and len(prose) == 1:
            return []
        return [Value(_unbulleted(whole), tuple(no for no, text in prose if text.strip()))]
    if found := _run_of_lines(prose):
        return [found]
    said = [(no, _EXAMPLE.sub("", text)) for no, text in prose]
    spans = [(no, s[2].strip()) for no, text in said for s in _SPAN.finditer(text)]
    return [Value(text, (no,), (), True) for no, text in spans if looks_like_command(text)]


def _code(block: list[Line]) -> Value:
    texts = [n.text for n in block]
    full = [n.no for n in block if n.text.strip()]
    if block[0].info in _CONSOLE and next(t for t in texts if t.strip()).lstrip().startswith("$ "):
        texts = [re.sub(r"^\s*\$ ", "", t) for t in texts]
    first, last = full[0] - block[0].no, full[-1] - block[0].no
    return Value("\n".join(texts[first : last + 1]), tuple(range(full[0], full[-1] + 1)))


def _run_of_lines(prose: Sequence[tuple[int, str]]) -> Value | None:
    """The first line of a paragraph that is a command, with those that continue it."""
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
    return Value(whole, tuple(no for no, _ in taken), (), explained)


def _unbulleted(text: str) -> str:
    """`- python x` nested below `- command:` is one command, not an option."""
    bullet = re.match(r"[-*]\s+(?=[^-\s])", text)
    return text[bullet.end() :] if bullet and "\n" not in text else text
