"""autoresearch: run RL experiments from blueprints while nobody watches."""

__version__ = "0.1.0"
