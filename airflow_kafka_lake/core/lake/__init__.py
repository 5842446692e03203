"""What a job is asked to stage, and where every offset of it went."""
