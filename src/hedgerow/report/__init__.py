"""HTML reports: a comparison of all methods on one table; a model and its test rows."""

from hedgerow.report.findings import Findings, find
from hedgerow.report.ladder import (
    Result,
    Rung,
    Split,
    climb,
    ladder_page,
    ladder_text,
    rungs_for,
    split_table,
)
from hedgerow.report.model_page import model_page

__all__ = [
    "Findings",
    "Result",
    "Rung",
    "Split",
    "climb",
    "find",
    "ladder_page",
    "ladder_text",
    "model_page",
    "rungs_for",
    "split_table",
]
