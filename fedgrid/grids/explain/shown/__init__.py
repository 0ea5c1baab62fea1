"""Explanations in reports: summaries over images, tables, sentences and figures."""
