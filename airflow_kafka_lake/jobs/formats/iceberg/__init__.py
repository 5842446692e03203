"""Iceberg's SQL and options in Spark; no other module of `jobs` uses them."""
