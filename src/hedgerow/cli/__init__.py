"""The command line: ``hedgerow demo | train | predict | inspect | warmup | bench``.

One file each command; :mod:`hedgerow.cli.main` names them, and turns every
error into one line and an exit code.  Nothing heavy is imported before a
command needs it, so ``hedgerow --help`` answers at once.
"""
