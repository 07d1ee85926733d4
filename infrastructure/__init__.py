"""Everything replaceable: the log on a database, the codec, the runner, settings, the command line."""
