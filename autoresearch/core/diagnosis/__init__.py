"""Why a run ended badly, which symptoms it shows while it trains, and what to try."""
