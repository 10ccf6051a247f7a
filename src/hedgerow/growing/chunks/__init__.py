"""Trees on rows that are read chunk by chunk, by threads and by ranks."""
