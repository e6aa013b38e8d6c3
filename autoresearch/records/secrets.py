"""Masking of secrets for all writers of records. The code lies with the Runner, which writes records, too."""

from __future__ import annotations

import re

from autoresearch.runner.masking import MASK as MASK
from autoresearch.runner.masking import clean_text as clean_text
from autoresearch.runner.masking import learn as learn
from autoresearch.runner.masking import mask_environment as mask_environment
from autoresearch.runner.masking import mask_text as mask_text
from autoresearch.runner.masking import mask_values as mask_values
from autoresearch.runner.masking import secrets_in as secrets_in


def masked_file(data: bytes, *, yaml: bool = False) -> bytes:
    """The content of a user's file with secrets masked; unchanged bytes if it contains none."""
    text = data.decode("utf-8", "surrogateescape")
    masked = mask_text(text)
    if yaml:  # quote the mask: a bare *** would be a YAML alias
        masked = re.sub(rf"(?<=[:\s]){re.escape(MASK)}(?=\s|$)", f'"{MASK}"', masked)
    return data if masked == text else masked.encode("utf-8", "surrogateescape")
