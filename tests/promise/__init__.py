"""What other programs may rely on, against a frozen copy of what the last release has promised."""
