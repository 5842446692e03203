"""The test kit: doubles of every port, faults at ports, and what records calls for a checker."""
