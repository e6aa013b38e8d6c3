"""Statistics on few noisy runs: noise, confirmation, comparability, pruning, seeds."""
