"""Read tables of every kind: frames, arrays, Python objects and files."""
