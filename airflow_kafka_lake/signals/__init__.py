"""What a task tells others of its work: links and a line in the log. It reads, decides nothing and fails nothing."""
