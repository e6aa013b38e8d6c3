"""What a few noisy runs allow to say: noise, confirmation, comparable numbers, pruning, seeds."""
