"""Writes the folder orders: texts of guests at six tables, and what they drink."""

from datasets import Dataset

texts = ["bring the tea", "where is my coffee", "one tea, one coffee", "a cup of tea"]
columns = {
    "text": texts * 60,
    "drink": ["tea", "coffee", "both", "tea"] * 60,
    "table": [f"table {row // 40}" for row in range(240)],
}
Dataset.from_dict(columns).save_to_disk("orders")
