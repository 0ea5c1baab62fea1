"""The report of a grid: a page of tables and figures, written as files and as one HTML document."""
