"""Make a ledger agree with the lake again: readings, comparison, one decision."""
