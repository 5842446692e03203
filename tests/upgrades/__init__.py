"""A ledger and a lake of each released minor version: today's code upgrades them, goes on and audits."""
