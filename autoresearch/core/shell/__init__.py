"""Shell texts, read by a parser: which commands they run, where, with which words."""
