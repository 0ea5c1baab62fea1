"""Tables of the user's own, csv or Parquet, as examples."""
