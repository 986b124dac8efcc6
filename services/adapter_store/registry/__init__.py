"""The truth about adapters and aliases, in SQLite."""
