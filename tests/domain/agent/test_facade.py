"""The facade: what the seed's users import is there under its name (SPEC P7)."""

import refold.pool

SEED_NAMES = """
    Agent AgentHook AgentRegistry AsyncGenTool BaseTool ContextItem ContextPool ContextPoolHook ContextQueue
    ContextQueueHook Hook HookMetadata HookRegistry SafeExecutionError StopReason Tool ToolHook ToolMetadata
    ToolRegistry Turn TurnHook TurnMetadata TurnTimeoutError UnregisteredAgentError UnregisteredHookError
    UnregisteredToolError UnserializableHookError WrongRunMethodError eval_args eval_kwargs hook inject_context_deps
    merge_kwargs rebuild_hooks_from_serialization safe_execution serialize_hooks_by_type tool
"""


def test_code_moves_over_by_changing_its_import() -> None:
    """Every public name is exported, and the two variables that hand out a queue and a pool are there."""
    assert set(SEED_NAMES.split()) <= set(refold.pool.__all__)
    assert all(hasattr(refold.pool, name) for name in refold.pool.__all__)
    assert {"_current_context_pool", "_current_context_queue"} <= set(vars(refold.pool))
