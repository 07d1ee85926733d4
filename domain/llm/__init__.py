"""Asking models: the base of adapters, their answers and errors, and several of them behind one."""
