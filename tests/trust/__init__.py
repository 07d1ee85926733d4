"""Keys and encrypted stores, erasure, witnesses, backups: what a store does against loss of trust."""
