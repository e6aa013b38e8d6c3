"""Notices of what happened while nobody watched, sent by a program of its own to whom `notify:` names."""
