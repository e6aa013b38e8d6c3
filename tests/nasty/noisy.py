"""A trainer that prints a lot of something that is not a well-formed log, then one real step.

noisy.py KIND MEGABYTES     KIND: lines, binary, no-newline, cr, nul
"""

import os
import sys

KIND, MEGABYTES = sys.argv[1], int(sys.argv[2])
BAR = "Training: 12%|█▏        | 12/100 [00:01<00:10]".encode()
PIECES = {
    "lines": b"INFO engine: nothing of interest happens here, again and again\n" * 1024,
    "binary": bytes(range(256)) * 256,
    "no-newline": b"x" * 65536,
    "cr": (b"\r" + BAR) * 1024,
    "nul": bytes(65536),
}


def main() -> None:
    """Write, then end with a step that must be found after all that."""
    piece = PIECES[KIND]
    for _ in range(MEGABYTES * 1_000_000 // len(piece)):
        os.write(1, piece)
    end = b"\r" if KIND == "cr" else b"\n"
    os.write(1, end + b"step:7 - actor/kl_loss:0.25" + end)


main()
