"""Raw scores of rows."""
