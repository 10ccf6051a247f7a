"""Comparisons of the whole family on one table, as text and as a page."""

from hedgerow.report.ladder import Result, Rung, Split, climb, ladder_text, rungs_for, split_table
from hedgerow.report.page import ladder_page

__all__ = [
    "Result",
    "Rung",
    "Split",
    "climb",
    "ladder_page",
    "ladder_text",
    "rungs_for",
    "split_table",
]
