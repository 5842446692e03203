"""`make proof`: everything that `make test` leaves out, in parts that are kept as they end, with evidence."""
