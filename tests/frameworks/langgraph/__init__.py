"""The checkpointer and the memory of LangGraph over a store."""
