"""The model file: write, read, validate."""
