"""Pure functions of arrays, compiled by Numba; nothing here knows a Python object."""
