"""The report as a page that is served while its campaign runs."""
