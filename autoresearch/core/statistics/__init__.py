"""Statistics on few noisy runs: noise, confirmation, comparability, screening, seeds."""
