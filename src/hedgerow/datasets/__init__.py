"""Small data sets that ship with the package, for demonstrations and tests."""

from hedgerow.datasets.pima import Pima, load_pima

__all__ = ["Pima", "load_pima"]
