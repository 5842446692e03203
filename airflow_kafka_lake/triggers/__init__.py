"""What waits in the triggerer, without a worker slot."""
