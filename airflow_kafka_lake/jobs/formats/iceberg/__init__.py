"""The words of Iceberg in Spark; elsewhere in `jobs` nothing knows them."""
