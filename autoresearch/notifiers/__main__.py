"""`python -m autoresearch.notifiers send|attempt|check`: a job comes on stdin; only our own code calls this."""

from __future__ import annotations

import json
import os
import sys

from autoresearch.notifiers import deliver
from autoresearch.notifiers.sending import USELESS, Outgoing, read_all, send


def main(verb: str) -> None:
    """Send a job, make one attempt, or write what is wrong with each recipient to stdout as a JSON list."""
    data = read_all(0)
    if not data:
        return  # whoever started this died before it said what to send, and says it again
    outgoing = Outgoing.decoded(data)
    if verb == "send":
        send(outgoing)
    elif verb == "check":
        os.write(1, json.dumps([one.without_secrets(deliver.why_unusable(one)) for one in outgoing.to]).encode())
    else:
        try:
            deliver.deliver(outgoing.to[0], outgoing.notice)
        except deliver.NotDelivered as failure:
            os.write(2, " ".join(str(failure).split()).encode("utf-8", "replace"))
            raise SystemExit(USELESS if isinstance(failure, deliver.NotUsable) else 1) from None


if __name__ == "__main__":
    main(sys.argv[1])
