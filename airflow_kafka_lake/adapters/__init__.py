"""One module per outside world; they are strangers to each other."""
