"""What a round needs of rows in chunks: scores, leaf values, and losses that need all rows."""
