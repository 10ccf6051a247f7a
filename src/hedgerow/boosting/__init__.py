"""The boosting loop as a generator of states, with stopping and callbacks."""
