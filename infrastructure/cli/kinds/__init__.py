"""The commands for one kind of context each: `refold queue`, `refold pool` and `refold memory`."""
