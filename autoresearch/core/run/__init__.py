"""One run: its specification, limits, ending and ledger row; interfaces of trainers and launchers."""
