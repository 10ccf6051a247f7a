"""A model of ours in the formats of others, one file for each."""
