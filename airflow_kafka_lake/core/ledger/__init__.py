"""What is on record, its states, and what every ledger refuses."""
