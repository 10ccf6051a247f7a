"""Trees with a vector in each leaf."""
