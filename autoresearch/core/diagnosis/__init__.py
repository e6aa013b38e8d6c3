"""Why a run ended badly, and what to try."""
