"""Random tables, parameters and objectives, and what every fit of them has to keep.

``python -m tests.fuzz --n 20000 --seed 0`` from the root of the repository.
"""
