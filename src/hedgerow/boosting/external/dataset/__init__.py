"""Datasets in files and batches: read in passes, encoded, binned and stored in chunks."""
