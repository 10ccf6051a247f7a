"""What is chosen from the data where a parameter is left at its default."""
