"""Versions of packages and properties of the machine, for bug reports."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec

import hedgerow
from hedgerow.compile import library
from hedgerow.compile.target import compile_policy
from hedgerow.threads import available_threads

_PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "narwhals", "numba", "llvmlite"),
    *("pandas", "polars", "pyarrow", "matplotlib", "dask", "distributed", "mpi4py"),
    *("onnx", "onnxruntime", "lightgbm", "xgboost", "catboost"),
)


def versions() -> dict[str, str]:
    """Return the versions of everything that matters to a fit; None for missing packages.

    Returns
    -------
    dict from str to str

    Examples
    --------
    >>> from hedgerow.versions import versions
    >>> versions()["hedgerow"]
    '0.1.0'
    """
    built = "as built" if library.is_usable() else library.state()
    found = {
        "hedgerow": hedgerow.__version__,
        "python": sys.version.replace("\n", " "),
        "system": platform.platform(),
        "threads": str(available_threads()),
        "kernels": built,
        "HEDGEROW_COMPILE": compile_policy(),
    }
    return found | {name: _version_of(name) for name in _PACKAGES}


def show_versions() -> None:
    """Print :func:`versions`, for a bug report; nothing in a process without standard output.

    Examples
    --------
    >>> import hedgerow
    >>> hedgerow.show_versions()  # doctest: +ELLIPSIS
    hedgerow          0.1.0
    python            3...
    """
    if sys.stdout is None:
        return
    for name, text in versions().items():
        sys.stdout.write(f"{name:18s}{text}\n")


def _version_of(package: str) -> str:
    """Return the version of a package, also if another distribution brings it (xgboost-cpu)."""
    try:
        return version(package)
    except PackageNotFoundError:
        if find_spec(package) is None:
            return "None"
    # Takes most of a second where many packages are installed.
    distributions = packages_distributions().get(package, [])
    found = [f"{version(name)} ({name})" for name in sorted(set(distributions))]
    return ", ".join(found) or "unknown"
