"""autoresearch: run RL experiments from blueprints, unattended. The public interface is that of `autoresearch.api`."""

__version__ = "0.1.0"
_PUBLIC = ("AutoresearchError", "Campaign", "Run", "campaign", "ledger", "metrics", "run", "runs")


def __getattr__(name: str) -> object:
    # Every Runner start imports this package, so what is public is imported when it is used.
    if name not in _PUBLIC:
        raise AttributeError(f"module 'autoresearch' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("autoresearch.api"), name)


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
