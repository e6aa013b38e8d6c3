"""Keep secrets out of records: names that say so, and values that look like keys.

Over-masking costs too: a command whose `data.prompt_key=prompt` or `num_tokens=512` is gone cannot be
typed again. So a name must hold the word as a word of its own, and the field's harmless neighbours
(`max_tokens`, `pad_token`, `tokenizer`, `input_key`) are let through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from autoresearch.core.regex import later

MASK = "***"

_WORDS = later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # of snake_case, kebab-case and camelCase
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey", "credential", "credentials")
_SECRET_WORDS = frozenset({*_SECRET_ENDINGS, "pwd", "secrets", "passwords"})


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KEY_KINDS = _set_of(
    "api access secret private auth account license ssh gpg pgp encryption signing master service session "
    "client consumer app deploy webhook"
)
_TOKEN_KINDS = _KEY_KINDS | _set_of("bearer refresh hf bot user personal github gitlab")
# beside `token` these make it a word of language modelling, not of authentication
_HARMLESS = _set_of(
    "num n max min len length size limit limits count budget per total mean avg ratio pad eos bos unk mask "
    "sep cls image audio video special new prompt response level id ids type loss logprob think stop start "
    "end first last next prev begin"
)
_NOTHING = later(r"(?:true|false|none|null|)\Z", re.IGNORECASE)
_NUMBER = later(r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?\Z", re.IGNORECASE)
_RANDOM = later(r"(?=\D*\d).{16}", re.DOTALL)
_REFERENCE = later(r"\$\{?[A-Za-z_]\w*\}?\Z|\$\(|`")

_SHAPES = later(
    r"""
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
  | (?<![A-Za-z0-9_])(?:
        sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}          # OpenAI, Anthropic and their kin
      | hf_[A-Za-z0-9]{20,}                                     # Hugging Face
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}                               # AWS
      | AIza[\w-]{35} | ya29\.[\w.-]{20,}                       # Google
      | xox[abprs]-[\w-]{10,}                                   # Slack
      | (?:gsk|nvapi|r8|npm|pypi|wandb_v1|tgp_v1|xai)[_-][A-Za-z0-9_-]{20,}
      | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}                   # a JSON web token
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_URL = later(r"(?<=://)([^\s/:@'\"]{0,100}):([^\s/@'\"]{1,200})(?=@)")
_BEARER = later(r"\b(Bearer|Basic)(\s+)([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_NAMED = later(
    r"""(?<![\w.-])(?P<flag>--?)?(?P<name>[A-Za-z_][\w.-]{0,79})(?P<quote>\\?["']|)
        (?P<sign>[ \t]?=[ \t]?|:[ \t]{0,3}|(?(flag)[ \t]+(?=[^-\s])|(?!)))""",
    re.VERBOSE,
)
_VALUE = later(
    r"""(?P<escaped>\\")[^"\\\n]{0,16384}\\" | (?P<double>")(?:[^"\\\n]|\\.){0,16384}"
      | (?P<single>')[^'\n]{0,16384}' | [^\s"'&|;,)}\]]{1,512}""",
    re.VERBOSE,
)
_HINT = later(
    r"pass|pwd|token|secret|key|credential|auth|bearer|basic|sk-|hf_|gh[pousr]_|github_pat|glpat"
    r"|akia|asia|aiza|ya29|xox|gsk|nvapi|r8_|npm_|pypi|eyj|xai|tgp_|wandb_v1|://",
    re.IGNORECASE,
)


def mask_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The same variables; a value whose name or shape says secret becomes `***`, an empty one stays."""
    return {n: MASK if value and _is_secret_variable(n) else mask_text(value) for n, value in env.items()}


def mask_text(text: str) -> str:
    """A command or some lines of a log without the secrets in it; masking twice changes nothing."""
    if not _HINT.search(text):
        return text
    text = _SHAPES.sub(MASK, text)
    text = _URL.sub(rf"\1:{MASK}", text)
    text = _BEARER.sub(rf"\1\2{MASK}", text)
    return _mask_assignments(text)


def _is_secret_variable(name: str) -> bool:
    """Variables are named with care: a word `key`, `token` or `auth` is enough, unless it counts tokens."""
    words = _words(name)
    return _says_secret(words) or bool({"key", "keys", "auth"} & set(words))


def _mask_assignments(text: str) -> str:
    """`NAME=value`, `name: value`, `--name value`; no secret may hold the next name (`-e HF_TOKEN=x`)."""
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


def _is_secret_name(name: str) -> bool:
    """In text a lower-case `key` alone is a column's or an argument's name."""
    words = _words(name)
    return _says_secret(words) or (name.isupper() and bool({"key", "auth"} & set(words)))


def _mark_of_secret(named: re.Match[str], value: re.Match[str]) -> str | None:
    """The quotation mark (or "") around a value to be masked; None for one that may be shown."""
    words = _words(named["name"])
    mark = value["escaped"] or value["double"] or value["single"] or ""
    bare = value[0][len(mark) : len(value[0]) - len(mark)]
    if _NOTHING.match(bare) or (_NUMBER.match(bare) and not _is_certain(words)):
        return None
    if _REFERENCE.match(bare) and mark != "'":
        return None
    prose = ":" in named["sign"] and not named["quote"] and len(words) == 1 and not _is_certain(words)
    return mark if not prose or _RANDOM.match(bare) else None


def _says_secret(words: list[str]) -> bool:
    if _says_password(words):
        return True
    kinds = set(words)
    if {"key", "keys"} & kinds:
        return bool(_KEY_KINDS & kinds)
    if any(word.endswith("token") for word in words):
        return not _HARMLESS & kinds
    return "tokens" in kinds and bool(_TOKEN_KINDS & kinds) and not _HARMLESS & kinds


def _is_certain(words: list[str]) -> bool:
    """A password or a named kind of key, as opposed to a `token`, which may be a word's."""
    return _says_password(words) or ("key" in words and bool(_KEY_KINDS & set(words)))


def _says_password(words: list[str]) -> bool:
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
