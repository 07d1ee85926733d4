"""A chat store of LlamaIndex over a store: `RefoldChatStore(store)`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("llama-index"):
    from refold.infrastructure.frameworks.llama_index import RefoldChatStore

__all__ = ["RefoldChatStore"]
