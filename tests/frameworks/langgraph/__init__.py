"""The checkpointer of LangGraph over a store."""
