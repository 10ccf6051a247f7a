"""Rows that stay on disk: files, chunks of bins, and what a fit keeps of them."""
