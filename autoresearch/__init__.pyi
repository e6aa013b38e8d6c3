from autoresearch.api import AutoresearchError as AutoresearchError
from autoresearch.api import Campaign as Campaign
from autoresearch.api import Run as Run
from autoresearch.api import campaign as campaign
from autoresearch.api import ledger as ledger
from autoresearch.api import metrics as metrics
from autoresearch.api import run as run
from autoresearch.api import runs as runs

__version__: str
