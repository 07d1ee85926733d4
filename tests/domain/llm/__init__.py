"""The LLM layer: answers, listeners, several models behind one, summaries and the window that asks for them."""
