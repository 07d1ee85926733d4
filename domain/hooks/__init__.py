"""Hooks: async functions that are called at moments of queues, pools, agents, turns and tools."""
