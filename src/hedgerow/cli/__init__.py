"""The command line: ``hedgerow demo | train | predict | inspect | warmup | bench``."""
