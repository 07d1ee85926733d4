"""Context windows, and the contexts of requests that have one."""
