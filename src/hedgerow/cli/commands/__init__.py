"""One module for each command of ``hedgerow``."""
