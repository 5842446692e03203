"""What a reader of the main path never meets: each folder can be deleted with its line in `registration`."""
