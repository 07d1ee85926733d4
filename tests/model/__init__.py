"""Model tests: long random lives of a log and of chat contexts, against plain lists and dicts."""
