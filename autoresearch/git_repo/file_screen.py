"""What a snapshot must not contain: secrets, virtual environments, checkpoints. Checks names only, opens no file.

A file excluded wrongly makes the commit differ from the code that ran; one included wrongly may publish a key.
Hence secrets are matched broadly, except for names of source code, and weights narrowly: by the directory names that
trainers use and by suffixes used for nothing else.
"""

from __future__ import annotations

import re
from fnmatch import translate

SECRET = "secret file"
CHECKPOINT = "checkpoint"
VENV = "virtual environment"

SOURCE_SUFFIXES = tuple(
    f".{suffix}"
    for suffix in "py pyi pyx ipynb sh bash c cc cpp cu cuh h hpp rs go js ts java md rst".split()  # noqa: SIM905
)
CONFIG_SUFFIXES = (".yaml", ".yml", ".toml")

_SECRET_NAMES = (
    "*.env",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials*",
    ".credentials*",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
)
_PUBLISHED = (".example", ".sample", ".template", ".dist")  # .env.example is meant to be committed
_SECRET = re.compile("|".join(map(translate, _SECRET_NAMES)))
_TOKEN = re.compile(r"\.?(?:[\w-]*[._-])?token(?:\.txt|\.json)?\Z")
_SECRET_DIRECTORIES = frozenset({".ssh", ".aws", ".gnupg", ".kube"})

_CHECKPOINT_SUFFIXES = (".ckpt", ".safetensors")
_CHECKPOINT_DIRECTORY = re.compile(r"(?:saved_)?checkpoints\Z|(?:global_step_?|checkpoint-|iter_)\d+\Z")


def is_secret(path: str) -> bool:
    """Whether a repository path names a key, a token or a credentials file; source code never counts as one."""
    *directories, name = path.lower().split("/")
    if not _SECRET_DIRECTORIES.isdisjoint(directories):
        return True
    if name.endswith(_PUBLISHED):
        return False
    if name == ".env" or name.startswith(".env."):
        return True
    if name.endswith(SOURCE_SUFFIXES):
        return False
    return bool(_TOKEN.match(name) or _SECRET.match(name))


def is_checkpoint(path: str) -> bool:
    """Whether an untracked path holds weights: by suffix, or inside a trainer's checkpoint directory.

    Source code and configuration files in such a directory do not count: a package may be called `checkpoints`.
    """
    *directories, name = path.lower().split("/")
    if name.endswith(_CHECKPOINT_SUFFIXES):
        return True
    if name.endswith((*SOURCE_SUFFIXES, *CONFIG_SUFFIXES)):
        return False
    return any(_CHECKPOINT_DIRECTORY.match(directory) for directory in directories)
