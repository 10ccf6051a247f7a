"""Forests of few rows are predicted by all engines."""

from tests.model.conftest import tables_pay_at_once

__all__ = ["tables_pay_at_once"]
