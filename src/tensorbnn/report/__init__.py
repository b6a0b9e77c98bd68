"""A self-contained HTML page about a run: what was modeled, and whether you can trust it."""

from tensorbnn.report.page import write_report

__all__ = ["write_report"]
