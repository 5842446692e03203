"""How far a pipeline is: what the ledger and Kafka say of it, as one value, and what people make of that."""
