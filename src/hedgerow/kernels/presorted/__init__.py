"""The search of the best split among all values of sorted columns."""
