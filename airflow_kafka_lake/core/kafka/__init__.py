"""What Kafka says, as values: snapshots, transactions, raw batches, leader epochs, what it has no more."""
