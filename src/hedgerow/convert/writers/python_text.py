"""Writer of a Python module that imports only ``math``: for reading, and for small devices.

Each tree is a function of nested conditions.  The module's ``predict(row)`` takes a mapping
from column to value, or a sequence in the order of ``COLUMNS``.
"""

from __future__ import annotations

import math
import os
import runpy
import tempfile
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.convert.writers.plain import PlainModel, PlainTree, refuse

_TARGET = "Python"
_MOST_DEPTH = 80
"""Python accepts at most 100 levels of indentation."""


def write(plain: PlainModel, approximate: bool, notes: list[str]) -> bytes:
    """Return the text of a module."""
    trees = plain.trees()
    lines = _head(plain)
    for number, tree in enumerate(trees):
        lines += ["", "", *_tree(plain, number, tree)]
    lines += ["", "", *_tail(plain, len(trees))]
    return ("\n".join(lines) + "\n").encode()


def _head(plain: PlainModel) -> list[str]:
    lines = [
        f'"""{plain.forest.n_trees} trees, objective {plain.objective!a}.',
        "",
        "predict(row) returns the prediction, raw_scores(row) the sums of the trees.",
        '"""',
        "",
        "import math",
        "",
        "COLUMNS = [",
        *(f"    {name!a}," for name in plain.names),
        "]",
        f"BASE_SCORE = {plain.forest.base_score.tolist()!r}",
        f"CLASSES = {None if plain.classes is None else plain.classes.tolist()!a}",
    ]
    coded = [(j, c) for j, c in enumerate(plain.columns) if c.kind == "category"]
    lines.append("LEVELS = {")
    lines += [f"    {j}: {list(column.levels)!a}," for j, column in coded]
    made = "{level: k for k, level in enumerate(known)} for j, known in LEVELS.items()"
    lines += ["}", f"CODES = {{j: {made}}}"]
    lines.append(f"ROUNDING = {{{', '.join(f'{j}: {c.rounding!r}' for j, c in coded)}}}")
    if plain.statistics:
        lines.append("STATISTICS = [")
        for each in plain.statistics:
            n_levels = tuple(plain.schema.n_levels(j) for j in each.columns)
            values = dict(zip(each.keys.tolist(), each.values.T.tolist(), strict=True))
            others = each.prior.tolist()  # the values of other keys
            lines.append(f"    ({each.columns!r}, {n_levels!r}, {values!r}, {others!r}),")
        lines.append("]")
    if plain.crosses:
        listed = ", ".join(f"({c.first}, {c.second}, {c.operation!r})" for c in plain.crosses)
        lines.append(f"CROSSES = [{listed}]")
    lines += [
        "inf = math.inf",
        "",
        "",
        "def read(row):",
        '    """Values as numbers: NaN if missing, categories as codes, -1 for an unknown one."""',
        '    if hasattr(row, "keys"):',
        "        row = [row[name] for name in COLUMNS]",
        "    x = [read_value(j, value) for j, value in enumerate(row)]",
        *(["    add_statistics(x)"] if plain.statistics else []),
        *(["    add_crosses(x)"] if plain.crosses else []),
        "    return x",
        "",
        "",
    ]
    text = _READ_VALUE
    if plain.schema.zero_missing:
        number = "        x = float(x)\n"
        zero = f"        x = math.nan if abs(x) <= {plain.schema.zero_band!r} else x\n"
        text = text.replace(number, number + zero)
    text += _ADD_STATISTICS if plain.statistics else ""
    text += _ADD_CROSSES if plain.crosses else ""
    if plain.forest.slopes is not None:
        slopes = plain.forest.slopes
        bounded = np.isfinite(slopes.low[np.diff(slopes.start) > 0])
        text += (_LINE if bounded.any() else "") + ("" if bounded.all() else _OPEN_LINE)
    return [*lines, *text.splitlines()]


_READ_VALUE = """\
def read_value(j, x):
    if x is None or x != x:
        return math.nan
    if j not in CODES:
        x = float(x)
        return x
    if ROUNDING[j] != "none" and math.isfinite(x):
        x = math.floor(x) if ROUNDING[j] == "down" else math.trunc(x)
    return CODES[j].get(x, -1)
"""
_ADD_STATISTICS = """

def add_statistics(x):
    \"\"\"Add the statistics of categories; a missing value is a category of its own.\"\"\"
    for columns, n_levels, values, others in STATISTICS:
        key = 0
        for j, n in zip(columns, n_levels):
            key = key * (n + 2) + (n + 1 if x[j] != x[j] else x[j])
        known = all(x[j] != -1 for j in columns)
        x += values.get(key, others) if known else others
"""
_ADD_CROSSES = """

def add_crosses(x):
    \"\"\"Add products, differences and ratios of two values.\"\"\"
    x += [crossed(x[j], x[k], operation) for j, k, operation in CROSSES]


def crossed(a, b, operation):
    if operation == "product":
        return a * b
    if operation == "difference":
        return a - b
    return a / b if b != 0.0 else math.nan
"""
_LINE = """

def line(x, low, high, terms):
    \"\"\"The sum of slope * (x[j] - center) between low and high.\"\"\"
    total = 0.0
    for j, slope, center in terms:
        if math.isfinite(x[j]):
            total += slope * (x[j] - center)
    return min(max(total, low), high) if total == total else 0.0
"""
_OPEN_LINE = """

def open_line(x, instead, terms):
    \"\"\"The sum of slope * x[j]; another value if one of them is missing.\"\"\"
    total = 0.0
    for j, slope in terms:
        if x[j] != x[j]:
            return instead
        total += slope * x[j]
    return total
"""


def _tree(plain: PlainModel, number: int, tree: PlainTree) -> list[str]:
    """Return one function; a list replaces recursion."""
    lines = [f"def tree_{number}(x):"]
    waiting: list[tuple[int, int, str]] = [(0, 1, "")]
    while waiting:
        node, depth, before = waiting.pop()
        if depth > _MOST_DEPTH:
            raise refuse(f"a tree deeper than {_MOST_DEPTH} splits", _TARGET)
        if before:
            lines.append("    " * (depth - 1) + before)
        indent = "    " * depth
        if tree.column[node] < 0:
            lines.append(f"{indent}return {float(tree.value[node])!r}{_line(tree, node)}")
            continue
        name = ascii(plain.names_in_trees[int(tree.column[node])])
        lines.append(f"{indent}if {_question(tree, node)}:  # {name}")
        waiting.append((int(tree.right[node]), depth + 1, "else:"))
        waiting.append((int(tree.left[node]), depth + 1, ""))
    return lines


def _line(tree: PlainTree, node: int) -> str:
    """Return what a leaf adds to its value; no text if it has no terms."""
    line = tree.lines.get(node)
    if line is None:
        return ""
    if line.is_bounded:
        terms = zip(line.columns, line.slopes, line.centers, strict=True)
        return f" + line(x, {line.low!r}, {line.high!r}, {list(terms)!r})"
    terms_without = zip(line.columns, line.slopes, strict=True)
    return f" + open_line(x, {line.centers[0]!r}, {list(terms_without)!r})"


def _question(tree: PlainTree, node: int) -> str:
    """Return the condition of the left side; a comparison with NaN is false."""
    x, missing = f"x[{tree.column[node]}]", bool(tree.missing_left[node])
    if node not in tree.members:
        cut = float(tree.threshold[node])
        return f"not {x} > {cut!r}" if missing else f"{x} <= {cut!r}"
    unknown = tree.unknown_left[node]
    chosen = tree.members[node].tolist() + ([-1] if unknown else [])
    listed = "{" + ", ".join(map(str, chosen)) + "}" if chosen else "()"
    return f"{x} in {listed} or {x} != {x}" if missing else f"{x} in {listed}"


def _tail(plain: PlainModel, n_trees: int) -> list[str]:
    k = plain.n_outputs
    trees = ", ".join(f"tree_{t}" for t in range(n_trees))
    return [
        f"TREES = [{trees}]",
        "",
        "",
        "def raw_scores(row):",
        '    """The raw score of each output."""',
        "    x = read(row)",
        "    scores = list(BASE_SCORE)",
        "    for number, tree in enumerate(TREES):",
        f"        scores[number % {k}] += tree(x)",
        "    return scores",
        "",
        "",
        *_PREDICT[plain.link or "raw"].splitlines(),
    ]


_SIGMOID = """\
def sigmoid(z):
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    return math.exp(z) / (1.0 + math.exp(z))


"""
_RAW = """\
def predict(row):
    scores = raw_scores(row)
    return scores[0] if len(scores) == 1 else scores
"""
_SHARES = """\
def predict(row):
    \"\"\"The probability of each class.\"\"\"
"""
_PREDICT = {
    "raw": _RAW,
    "identity": _RAW,
    "shares": f"{_SHARES}    return raw_scores(row)",
    "log": "def predict(row):\n    return math.exp(raw_scores(row)[0])",
    "logit": f"""{_SIGMOID}\
def predict(row):
    \"\"\"The probability of the second class.\"\"\"
    return sigmoid(raw_scores(row)[0])
""",
    "logit_each": f"{_SIGMOID}{_SHARES}    return [sigmoid(z) for z in raw_scores(row)]",
    "softmax": f"""{_SHARES}\
    scores = raw_scores(row)
    most = max(scores)
    shares = [math.exp(z - most) for z in scores]
    return [share / sum(shares) for share in shares]
""",
}


def predict(data: bytes, plain: PlainModel, matrix: FloatArray) -> Any:
    """Compute raw scores with the module, row by row."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.py")
        with open(path, "wb") as file:
            file.write(data)
        module = runpy.run_path(path)
    return [module["raw_scores"](_row(plain, values)) for values in matrix.tolist()]


def _row(plain: PlainModel, values: list[float]) -> list[Any]:
    """Return a row with the categories; an object represents an unknown one."""
    return [
        x
        if column.kind != "category" or math.isnan(x)
        else (column.levels[int(x)] if int(x) < len(column.levels) else ("unknown",))
        for x, column in zip(values, plain.columns, strict=True)
    ]
