"""Use cases: gather everything, decide with pure functions, then write. Each takes the `Ports` first."""
