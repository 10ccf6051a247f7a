"""Which test files a suite has, and what stands in for the library that they import."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

EXPLAINED = Path(__file__).resolve().parent / "explained"


@dataclass(frozen=True)
class Suite:
    """Tests of another library.

    Attributes
    ----------
    adapter : str
        Module with ``install()``, which is called before the tests are imported.
    files : tuple of str
        Below the folder of the tests.
    package : str
        Package of the tests: of the installed library, or of a checkout.
    wanted : float
        Share of the tests that has to pass.
    """

    adapter: str
    files: tuple[str, ...]
    package: str
    wanted: float

    def tests_in(self, source: Path | None) -> list[Path]:
        """Return the test files in a checkout, or in the installed package."""
        if source is None:
            spec = importlib.util.find_spec(self.package)
            if spec is None or spec.origin is None:
                raise SystemExit(f"{self.package} is not installed")
            folder = Path(spec.origin).parent
        else:
            inside = source.joinpath(*self.package.split("."))
            folder = inside if inside.is_dir() else source
        found = [folder / name for name in self.files]
        missing = [str(file) for file in found if not file.is_file()]
        if missing:
            raise SystemExit(f"not found: {', '.join(missing)}")
        return found


SUITES = {
    "sklearn-hgb": Suite(
        "tests.peers.sklearn_hgb",
        ("test_gradient_boosting.py", "test_monotonic_constraints.py", "test_warm_start.py"),
        "sklearn.ensemble._hist_gradient_boosting.tests",
        0.90,
    ),
    "sklearn-tree": Suite(
        "tests.peers.sklearn_tree",
        ("test_tree.py", "test_monotonic_tree.py"),
        "sklearn.tree.tests",
        0.85,
    ),
}
