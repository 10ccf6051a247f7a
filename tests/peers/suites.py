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
        Installed package that ships the tests.
    folder : str
        Where the tests lie in a checkout.
    wanted : float
        Share of the tests that has to pass.
    """

    adapter: str
    files: tuple[str, ...]
    package: str
    folder: str
    wanted: float

    def tests_in(self, source: Path | None) -> list[Path]:
        """Return the test files in a checkout, or in the installed package."""
        folder = self._folder(source)
        found = [folder / name for name in self.files]
        missing = [str(file) for file in found if not file.is_file()]
        if missing:
            raise SystemExit(f"not found: {', '.join(missing)}")
        return found

    def _folder(self, source: Path | None) -> Path:
        if source is None:
            spec = importlib.util.find_spec(self.package)
            if spec is None or spec.origin is None:
                raise SystemExit(f"{self.package} is not installed")
            return Path(spec.origin).parent
        inside = source / self.folder
        return inside if inside.is_dir() else source


SUITES = {
    "sklearn-hgb": Suite(
        "tests.peers.sklearn_hgb",
        ("test_gradient_boosting.py", "test_monotonic_constraints.py", "test_warm_start.py"),
        "sklearn.ensemble._hist_gradient_boosting.tests",
        "sklearn/ensemble/_hist_gradient_boosting/tests",
        0.90,
    ),
    "sklearn-tree": Suite(
        "tests.peers.sklearn_tree",
        ("test_tree.py", "test_monotonic_tree.py"),
        "sklearn.tree.tests",
        "sklearn/tree/tests",
        0.85,
    ),
}
