"""Secrets in records: what every writer of a record masks by. It lies with the Runner, which writes records, too."""

from autoresearch.runner.masking import MASK as MASK
from autoresearch.runner.masking import clean_text as clean_text
from autoresearch.runner.masking import learn as learn
from autoresearch.runner.masking import mask_environment as mask_environment
from autoresearch.runner.masking import mask_text as mask_text
from autoresearch.runner.masking import mask_values as mask_values
from autoresearch.runner.masking import secrets_in as secrets_in
