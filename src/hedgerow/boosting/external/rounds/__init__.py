"""Parts of a round on chunks: scores, leaf values, and losses that need all rows."""
