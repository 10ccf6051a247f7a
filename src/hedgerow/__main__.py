"""``python -m hedgerow``: the command line."""

from hedgerow.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
