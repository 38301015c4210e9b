"""Datasets: rows of tables, JSON, YAML and Parquet files or of a function."""
