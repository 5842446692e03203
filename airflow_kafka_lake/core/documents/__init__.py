"""The JSON documents of commands (docs/reference), as pure functions of records."""
