"""Random tables, parameters and objectives, and the laws that every fit of them obeys.

``python -m tests.fuzz --n 20000 --seed 0`` from the root of the repository.
"""
