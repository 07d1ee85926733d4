"""What is the SQLite file's own: files of other programs, and what closing leaves behind."""
