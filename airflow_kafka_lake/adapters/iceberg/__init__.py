"""The lake as Iceberg tables: PyIceberg checks and publishes what Spark has staged on a branch."""
