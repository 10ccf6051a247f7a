"""The command line: ``hedgerow demo | train | predict | inspect | serve``.

Each command has a file in ``commands``; :mod:`hedgerow.cli.main` lists the commands and turns every
error into one line and an exit code.  Slow imports happen only in the commands that
need them, so ``hedgerow --help`` is fast.
"""
