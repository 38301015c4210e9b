"""Datasets: rows of tables, JSON, YAML and Parquet files or of a function, and the cases made from them."""
