"""`python -m autoresearch` is the `autoresearch` command."""

from autoresearch.cli import main

if __name__ == "__main__":
    main()
