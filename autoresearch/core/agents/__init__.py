"""Coding agents: what they are asked, what they answer, and what they may not change."""
