"""Masks secrets in records: values of telling names, values that look like keys, and values known to be secrets.

`mask_values` is called where text enters a record (the writers of the run directory, the ledger, pages, commit
messages) and where a command prints, so other code need not mask anything. It lies here because the Runner writes
records, too.

Over-masking has a cost, too: a command whose `data.prompt_key=prompt` or `num_tokens=512` is masked cannot be
repeated. So a telling word must be a separate word of the name, and common harmless names (`max_tokens`, `pad_token`,
`tokenizer`, `input_key`) are not masked. Commit hashes are shown.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re

from .basics import LazyPattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from typing import Any

MASK = "***"


_WORDS = LazyPattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # of snake_case, kebab-case and camelCase
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "credential", "credentials")
_SECRET_WORDS = frozenset({*_SECRET_ENDINGS, "pwd", "secrets", "passwords"})


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KEY_KINDS = _set_of(
    "api access secret private auth account license ssh gpg pgp encryption signing master service session "
    "client consumer app deploy webhook wandb swanlab openai anthropic hf huggingface comet neptune clearml azure "
    "gemini mistral deepseek dashscope openrouter together groq nvidia ngc tavily serper"
)
_TOKEN_KINDS = _KEY_KINDS | _set_of("bearer refresh hf bot user personal github gitlab")
# next to `token`, these words mean tokens of language models, not of authentication
_HARMLESS = _set_of(
    "num n max min len length size limit limits count budget per total mean avg ratio pad eos bos unk mask "
    "sep cls image audio video special new prompt response level id ids type loss logprob think stop start "
    "end first last next prev begin"
)
# with one of these words, a key is a hash or a sort key
_HASHES = _set_of("cache commit hash sha md5 digest content dedup sort")
_NOTHING = LazyPattern(r"(?:true|false|none|null|value|\.\.\.|)\Z", re.IGNORECASE)
_NUMBER = LazyPattern(r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?\Z", re.IGNORECASE)
_RANDOM = LazyPattern(r"(?=\D*\d).{16}", re.DOTALL)
_KEY_LIKE = LazyPattern(
    r"(?:[0-9a-f]{32,}|[0-9A-F]{32,}|(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=\D*\d)[A-Za-z0-9+/_=-]{20,})\Z"
)
# a program's expression, as in tracebacks: `api_key = os.environ[...]`, `token=args.token`
_CODE = LazyPattern(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[]|(?:self|args|cfg|config|os|opts?|options|settings|kwargs)\.[\w.]+\Z"
)
_REFERENCE = LazyPattern(r"\$\{?[A-Za-z_]\w*\}?\Z|\$\(|`")

_PRIVATE_KEY = LazyPattern(
    r"""
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
  | (?:^[ ]*[A-Za-z0-9+/=]{4,76}[ ]*\n)*[ ]*-----END[ ][A-Z ]*PRIVATE[ ]KEY-----  # of one that is seen from its middle
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# shapes that gitleaks' rules do not have, or have in a stricter form
_SHAPES = LazyPattern(
    r"""
    (?<![A-Za-z0-9_])(?:
        sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}          # OpenAI, Anthropic and their kin
      | hf_(?:oauth_)?[A-Za-z0-9]{20,}                          # Hugging Face
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}                               # AWS
      | AIza[\w-]{35} | ya29\.[\w.-]{20,}                       # Google
      | xox[abprs]-[\w-]{10,}                                   # Slack
      | hv[sb]\.[\w-]{20,}                                      # Vault
      | SG\.[\w-]{16,}\.[\w-]{16,}                              # SendGrid
      | (?:gsk|nvapi|r8|npm|pypi|wandb_v1|tgp_v1|xai|dckr_pat|[sr]k_(?:live|test|prod)
          |tvly|tskey|e2b|pcsk|lsv2_[ps][tk]|fw)[_-][A-Za-z0-9_-]{20,}
      | ms-[0-9a-f]{8}-[0-9a-f-]{27}                            # ModelScope
      | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}                   # a JSON web token
    )
    """,
    re.VERBOSE,
)
_SHAPE_WORDS = tuple(
    "sk- hf_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat glpat akia asia aiza ya29 xox hvs. hvb. sg. gsk nvapi r8 npm pypi "
    "wandb_v1 tgp_v1 xai dckr_pat k_live k_test k_prod tvly tskey e2b_ pcsk lsv2 fw_ ms- eyj".split()
)
_LINES = LazyPattern(r"(\n|\\[nrt])")  # also of a text that was quoted, where no word boundary is left
_TURNING = LazyPattern(r"[\u202a-\u202e\u2066-\u2069]")
# a single line of a private key, as a search in a log returns it
_KEY_LINE = LazyPattern(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)[A-Za-z0-9+/]+\Z")
# the password of a URL, which may hold anything but white space; `host:8080/path@v1` has a port and no password
_URL = LazyPattern(
    r"(?<=://)([^\s/:@'\"]{0,100}):(?!\d{1,5}/)([^\s'\"]{1,200}?)(?=@[\w.\[\]-]+(?::\d+)?(?:[/?#,;)\s'\"]|\Z))"
)
# ... or a token in the place of a user's name
_URL_TOKEN = LazyPattern(r"(?<=://)(?=[^\s/:@'\"]{0,200}\d)[^\s/:@'\"]{16,200}(?=@[\w.\[-])")
# addresses that are themselves the permission to post: hooks.slack.com/..., discord.com/api/webhooks/..., a bot's
_HOOK = LazyPattern(
    r"(//[^\s/'\"]{0,100}(?:/[\w.-]{1,40}){0,4}?(?:\.?hooks?\b[^\s/'\"]{0,60}|webhook\w*|/bot(?=\d+:))/?)"
    r"(?=[^\s'\"]{0,200}\d)([^\s'\"?]{16,300})"
)
_SIGNED = LazyPattern(
    r"(?<=[?&])((?:[\w-]{0,20}[_-])?(?:sig|signature|key|token|auth|password)=)([^\s&'\"#]{8,2000})", re.I
)
_AUTHORIZATION = LazyPattern(
    r"(\b(?:proxy-)?authorization\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?:(?!Bearer\b|Basic\b)[A-Za-z][\w-]{1,30}[ \t]+)?)"
    r"(?![A-Za-z][\w-]*[ \t]+\*\*\*)(?=[^\n\"'`]{0,400}\d)([^\s\"'`][^\n\"'`]{7,2000})",
    re.IGNORECASE,
)
_BEARER = LazyPattern(r"\b(Bearer|Basic)(\s+)(?=\S{0,200}[0-9=])([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_NETRC = LazyPattern(
    r"(\blogin[ \t\n]+\S{1,100}[ \t\n]+(?:account[ \t\n]+\S{1,100}[ \t\n]+)?password[ \t\n]+"
    r"|^[ \t]*password[ \t]+(?=\S*\d\S*[ \t]*$))(\S{1,300})",
    re.MULTILINE,
)
_LOGIN = LazyPattern(
    r"\b((?:wandb|swanlab|weave)[ \t]+login[ \t](?:[^\n;&|]{0,80}[ \t])?)([A-Za-z0-9_-]{20,})(?![\w/-]|\.\w)"
)
_USER = LazyPattern(r"(\bcurl\b[^\n;&|]{0,400}?[ \t](?:-u|--user)[ \t=]['\"]?[^\s:'\"]{1,80}:)([^\s'\"]{1,200})")
# an option that many programs have for something else: a port, a path
_PASSED = LazyPattern(
    r"(\b(?:sshpass|(?:docker|podman|oc|az)[ ]login|mysql\w*|mariadb\w*|mongo\w*|redis-cli|ldap\w+)\b[^\n;&|]{0,200}?"
    r"[ \t]-[paw][ \t]?['\"]?)(?=\S*[A-Za-z])([^\s'\"]{1,200})"
)
# ... or on its standard input
_PIPED = LazyPattern(
    r"(\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+|['\"])*)([^\s'\"$|;&]{1,200})(?=['\"]?[ \t]*\|[^|;&\n]*"
    r"(?:[ ]-(?:-stdin|S\b|-with-token|-password-stdin)|\blogin\b|passwd))"
)
_HERE = LazyPattern(r"(\bsudo[ \t][^\n;&|]{0,200}<<<[ \t]*['\"]?)([^\s'\"$]{1,200})")
_NAMED = LazyPattern(
    r"""(?<![\w.-])(?P<flag>--?)?(?P<name>[A-Za-z_][\w.-]{0,79})(?P<quote>\\?["']|)
        (?P<sign>[ \t]?=(?!>)[ \t]?|:(?!=)[ \t]{0,40}|(?(flag)[ \t]+(?=[^-\s])|(?!)))(?:[bBfFrRuU]{1,2}(?=["']))?""",
    re.VERBOSE,
)
_VALUE = LazyPattern(
    r"""(?P<escaped>\\")[^"\\\n]{0,16384}\\" | (?P<double>")(?:[^"\\\n]|\\.){0,16384}"
      | (?P<single>')[^'\n]{0,16384}' | [^\s"'&|;,)}\]]{1,512}""",
    re.VERBOSE,
)
# a name may be of another language or format: then anything, but at most one other word, and a value that is random
_SAYS = LazyPattern(r"(?:pass\w{0,6}|pwd|token|secret|key|credential|auth)s?(?![A-Za-z])|密码|密钥|口令|令牌", re.I)
_NAME = LazyPattern(r"(?:(?:(?<![A-Za-z])[A-Za-z]+[ ])?(?<![\w.-])[A-Za-z][\w.-]{0,79}|[^\x00-\x7f]{2})\Z")
_GAP = r"(?:%[0-9A-F]{2}|[^\w\n%])"
_NEXT = LazyPattern(
    rf"""(?P<gap>{_GAP}{{1,48}}|["']?[ \t]*[:=]?[ \t]*[|>]?-?,?[ \t]*\n(?=[ \t-]){_GAP}{{1,24}})
         (?P<word>\w[^\s"'`<>|,;()\[\]{{}}=:%\\&：＝]*)""",
    re.VERBOSE,
)
_NO_VALUE = LazyPattern(r"[-$/.?@~]\Z|\*\*\*|[.?][ ]|[)}]")  # an option, a path, another sentence or statement
_SIGN = LazyPattern(r"[=:：＝][ \t\"']*\Z")
_ALONE = LazyPattern(r"\s(?!=)")
_CHANGE = LazyPattern(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
# what may be a secret in none of our own forms: it has a run of letters and digits, as names and numbers have not
_RUN = LazyPattern(r"[A-Za-z0-9]{11,}")
_KEPT_GROUP = rf"\1{MASK}"
_NAMES = ("pass", "pwd", "token", "secret", "key", "credential", "auth", "密码", "密钥", "口令", "令牌")
# (a line without any of these words, in lower case, has no such secret; the pattern; what replaces it)
_FORMS: tuple[tuple[tuple[str, ...], LazyPattern, str], ...] = (
    (_SHAPE_WORDS, _SHAPES, MASK),
    (("://",), _URL, rf"\1:{MASK}"),
    (("://",), _URL_TOKEN, MASK),
    (("bearer", "basic"), _BEARER, rf"\1\2{MASK}"),
    (("authorization",), _AUTHORIZATION, _KEPT_GROUP),
    (("hook", "/bot"), _HOOK, _KEPT_GROUP),
    (("?", "&"), _SIGNED, _KEPT_GROUP),
    ((" login",), _LOGIN, _KEPT_GROUP),
    (("curl",), _USER, _KEPT_GROUP),
    ((" -p", " -a", " -w"), _PASSED, _KEPT_GROUP),
    ((" | ",), _PIPED, _KEPT_GROUP),
    (("<<<",), _HERE, _KEPT_GROUP),
)
_EVERY_WORD = tuple(dict.fromkeys((*_NAMES, *(word for form in _FORMS for word in form[0]))))


def mask_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The same variables; values that are secret by name or shape become `***`, empty ones stay."""
    return {n: MASK if value and _is_secret_variable(n) else mask_text(value) for n, value in env.items()}


def mask_values(value: Any, but: Container[str] = ()) -> Any:
    """A JSON value with the secrets in its strings masked; names and other types stay unchanged.

    `but`: names of entries, at any depth, whose values stay unchanged because they are executed.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {name: item if name in but else mask_values(item, but) for name, item in value.items()}
    return [mask_values(item, but) for item in value] if isinstance(value, list | tuple) else value


def clean_text(text: str) -> str:
    """`mask_text` for text that is stored or shown; also removes bidirectional controls (U+202E and its kin)."""
    return mask_text(text if text.isascii() else _TURNING.sub("", text))


def mask_text(text: str) -> str:
    """A command or log lines with secrets masked; idempotent."""
    for secret in _known(len(os.environ)):
        text = text.replace(secret, MASK)
    if len(text) in (64, 70) and _KEY_LINE.match(text):
        return MASK
    if "-----" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    if "password" in text:
        text = _NETRC.sub(_KEPT_GROUP, text)
    lower = text.lower()  # what is nowhere in the text is looked for in none of its lines
    mixed = _is_mixed(text)
    if not (mixed or any(word in lower for word in _EVERY_WORD)):
        return text
    forms = [form for form in _FORMS if any(word in lower for word in form[0])]
    named = any(word in lower for word in _NAMES)
    told = mixed and any(word in lower for word in _rule_words())
    rules = [rule for rule in _rules() if any(word in lower for word in rule[0])] if told else []
    if not (forms or named or rules):
        return text

    if named:
        text = _mask_near(text)

    def masked(line: str) -> str:
        lower = line.lower()
        for words, pattern, replacement in forms:
            if any(word in lower for word in words):
                line = pattern.sub(replacement, line)
        if named and any(word in lower for word in _NAMES):
            line = _mask_assignments(line)
        if rules and _is_mixed(line):
            for words, rule in rules:
                if any(word in lower for word in words):
                    line = rule(line)
        return line

    return "".join(map(masked, _LINES.split(text)))


def _is_mixed(text: str) -> bool:
    """Whether a text holds what may be random: neither words nor numbers alone."""
    return not all(run.isalpha() or run.isdigit() for run in _RUN.findall(text))


class _Rule:
    """One of gitleaks' rules: masks the group that holds the secret, if it is as random as the rule asks for."""

    def __init__(self, rule: Mapping[str, Any]) -> None:
        self._pattern = LazyPattern(rule["regex"])
        self._entropy: float = rule["entropy"]
        self._group: int = rule["group"]

    def __call__(self, text: str) -> str:
        return str(self._pattern.sub(self._masked, text))

    def _masked(self, match: re.Match[str]) -> str:
        secret = match[self._group] or match[0]
        shares = [secret.count(char) / len(secret) for char in set(secret)]
        random = -sum(share * math.log2(share) for share in shares) >= self._entropy
        return match[0].replace(secret, MASK) if random else match[0]


@functools.cache
def _rules() -> tuple[tuple[tuple[str, ...], _Rule], ...]:
    """The rules of gitleaks (`secret_rules.json`, which holds their licence), each with its keywords."""
    with open(os.path.join(os.path.dirname(__file__), "secret_rules.json"), encoding="ascii") as file:
        return tuple((tuple(rule["keywords"]), _Rule(rule)) for rule in json.load(file)["rules"])


@functools.cache
def _rule_words() -> tuple[str, ...]:
    """The keywords of all rules, each once: most texts hold none of them."""
    return tuple(dict.fromkeys(word for words, _ in _rules() for word in words))


def learn(values: Iterable[str]) -> None:
    """Register values to be masked in any context by this process; short values and plain words are ignored."""
    new = {value for value in values if _TELLING.match(value)} - _learnt
    if new:
        _learnt.update(new)
        _known.cache_clear()


def learn_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Register the secrets of an environment; returns the variables that hold them."""
    secret = {name: value for name, value in env.items() if _is_secret_variable(name) and _TELLING.match(value)}
    learn(secret.values())
    return secret


def secrets_in(text: str) -> list[str]:
    """The secrets in a command: the parts that `mask_text` replaces."""
    found = []
    masked = mask_text(text)
    for part in masked.split(MASK):
        at = text.find(part) if part else 0
        if at > 0:
            found.append(text[:at])
        text = text[at + len(part) :]
    return [*found, text] if text else found


_learnt: set[str] = set()
# a value that is neither an ordinary word nor a number or path
_TELLING = LazyPattern(r"(?=[^A-Za-z]*[A-Za-z])(?=\D*\d)[^\s/]{8,512}\Z")


@functools.cache
def _known(variables: int) -> tuple[str, ...]:
    """All known secrets, longest first, because one may contain another; includes those of this process's environment.

    `variables`: the number of environment variables; when it changes, the cached result is not used.
    """
    own = (v for n, v in os.environ.items() if _is_secret_variable(n) and _TELLING.match(v))
    return tuple(sorted({*_learnt, *own}, key=len, reverse=True))


def _is_secret_variable(name: str) -> bool:
    """Whether an environment variable is secret by name: the word `key`, `token` or `auth` suffices, except in counts
    of tokens."""
    words = _words(name)
    return _says_secret(words) or bool({"key", "keys", "auth"} & set(words))


def _mask_assignments(text: str) -> str:
    """Mask secret values in `NAME=value`, `name: value`, `--name value`; `-e HF_TOKEN=x` is handled, too."""
    done, at = [], 0
    while named := _NAMED.search(text, at):
        done.append(text[at : named.end()])
        at = named.end()
        if not _is_secret_name(named["name"]):
            continue
        value = _VALUE.match(text, at)
        if value and (mark := _mark_of_secret(named, value)) is not None:
            done.append(f"{mark}{MASK}{mark}")
            at = value.end()
    return "".join(done) + text[at:]


def _mask_near(text: str) -> str:
    """Mask random values close behind a name that says secret, whatever stands between: `(b'api_key', b'x7')`."""
    done, at = [], 0
    for said in _SAYS.finditer(text):
        name = _NAME.search(text, max(at, said.start() - 79), said.end())
        words = _words(name[0]) or ["password"] if name else []
        if name is None or not _says_secret(words):
            continue
        known = name[0].rpartition(" ")[2].isupper() or _is_certain(words) or bool(_TOKEN_KINDS & {*words})
        after, behind, several = name.end(), "", words[-1].endswith("s")
        while (found := _NEXT.match(text, after)) and not _NO_VALUE.search(found["gap"]):
            after, gap, word = found.end(), found["gap"], found["word"]
            call = text[after : after + 1] in ("(", "[")
            if behind == "word" and "," in gap and not several:
                break
            if _TELLING.match(word) and not call and (known or len(_CHANGE.findall(word)) > 2):
                done += [text[at : found.start("word")], MASK]
                at, behind = after, "value"
                if not several:
                    break
            elif behind or (_SIGN.search(gap) and _ALONE.match(text, after)):
                break
            else:
                behind = "word"
    return "".join(done) + text[at:]


def _is_secret_name(name: str) -> bool:
    """Whether a name in text may hold a secret; a lower-case `key` alone is taken for a column or an argument."""
    words = _words(name)
    upper = name.isupper() and (bool({"key", "auth"} & set(words)) or words[1:][-1:] == ["pass"])
    return _says_secret(words) or upper or _may_be_a_key(words)


def _may_be_a_key(words: list[str]) -> bool:
    """Whether a name like `--some-key` or npm's `_auth` may hold a secret; its value then decides."""
    return words[-1:] == ["auth"] or (words[-1:] == ["key"] and not _HASHES & set(words))


def _mark_of_secret(named: re.Match[str], value: re.Match[str]) -> str | None:
    """The quotation mark (or "") around a value to be masked; None for one that may be shown."""
    words = _words(named["name"])
    mark = value["escaped"] or value["double"] or value["single"] or ""
    bare = value[0][len(mark) : len(value[0]) - len(mark)]
    if _NOTHING.match(bare) or (_NUMBER.match(bare) and ("." in bare or not _is_certain(words))):
        return None
    if _REFERENCE.match(bare) and mark != "'":
        return None
    if not mark and not named["flag"] and _CODE.match(bare):
        return None
    if not (_says_secret(words) or named["name"].isupper() or _KEY_LIKE.match(bare.rstrip(".`*"))):
        return None
    prose = ":" in named["sign"] and not named["quote"] and len(words) == 1 and not _is_certain(words)
    return mark if not prose or _RANDOM.match(bare) else None


def _says_secret(words: list[str]) -> bool:
    if words[-1:] in (["env"], ["var"], ["variable"]):  # `--api-key-env NAME` gives a variable's name, not a secret
        return False
    if _says_password(words):
        return True
    kinds = set(words)
    if {"key", "keys"} & kinds:
        return bool(_KEY_KINDS & kinds)
    if any(word.endswith("token") for word in words):
        return not _HARMLESS & kinds
    return "tokens" in kinds and bool(_TOKEN_KINDS & kinds) and not _HARMLESS & kinds


def _is_certain(words: list[str]) -> bool:
    """Whether a name means a password or a known kind of key, unlike `token`, which may be a language model's."""
    return _says_password(words) or ("key" in words and bool(_KEY_KINDS & set(words)))


def _says_password(words: list[str]) -> bool:
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
