"""Before a campaign: from flags and files to a spec that a person agrees to."""
