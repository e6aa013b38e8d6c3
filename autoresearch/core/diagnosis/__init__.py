"""Why a run ended badly, what goes wrong while it trains, and what to try."""
