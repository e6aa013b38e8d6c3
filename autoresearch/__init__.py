"""autoresearch: run RL experiments from blueprints, unattended."""

__version__ = "0.1.0"
