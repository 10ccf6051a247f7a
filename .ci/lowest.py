"""The lowest versions of all dependencies that pyproject.toml declares, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

BOUND = re.compile(r"([A-Za-z0-9-]+)(?:\[[a-z,]+\])?>=([0-9.]+)")


def lowest(extras: list[str]) -> list[str]:
    """``name==version`` of what the package and some of its extras need."""
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    listed = list(settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"])
    for extra in ["jit", *extras]:
        listed += settings["project"]["optional-dependencies"][extra]
    found = []
    for one in listed:
        if not one.startswith("hedgerow["):
            bound = BOUND.match(one)
            if bound is None:
                raise SystemExit(f"pyproject.toml: {one!r} has no lower bound")
            found.append(f"{bound[1]}=={bound[2]}")
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest(sys.argv[1:])) + "\n")
