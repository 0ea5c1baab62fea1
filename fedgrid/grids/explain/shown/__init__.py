"""Explanations of one's own runs: their summaries over images, table, sentence and figures."""
