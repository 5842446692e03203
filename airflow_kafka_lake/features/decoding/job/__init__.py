"""What travels with the Spark job."""
