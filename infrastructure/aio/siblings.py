"""
The async siblings of the store and its contexts: a line for each name. `scripts/siblings` writes this file.

Type checkers take the arguments and results from the sync classes. At run time only the names count, so that no class
is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from .proxy import AsyncProxy, AsyncSubscription, StoreProxy, awaited, passed, plain, returning, showing, value

if TYPE_CHECKING:
    from ...domain.chat.approvals import Approvals
    from ...domain.chat.context import ChatContext
    from ...domain.chat.saved_states import SavedStates
    from ...domain.context.context import Context
    from ...domain.memory.memory import Memory, MemoryScope
    from ...domain.pool.pool import ContextPool
    from ...domain.pool.queue import ContextQueue
    from ...domain.trajectory.run import Run
    from ...domain.window.window import AgentContext, ContextWindow
    from ..projecting.worker import WorkingThread
    from ..queries.at import StoreAt
    from ..queries.what_if import WhatIf
    from ..store import Store

    _context = cast("Context[Any]", None)
    _chat = cast("ChatContext", None)
    _approvals = cast("Approvals", None)
    _saved_states = cast("SavedStates", None)
    _queue = cast("ContextQueue[Any]", None)
    _pool = cast("ContextPool[Any]", None)
    _budget_window = cast("ContextWindow", None)
    _agent_context = cast("AgentContext", None)
    _memory = cast("Memory", None)
    _memory_scope = cast("MemoryScope", None)
    _run = cast("Run", None)
    _store_at = cast("StoreAt", None)
    _what_if = cast("WhatIf", None)
    _worker = cast("WorkingThread", None)
    _store = cast("Store", None)

C = TypeVar("C", bound="Context[Any]")


class AsyncContext(AsyncProxy[C]):
    """The part that the siblings of all contexts have."""

    id = plain(lambda: _context.id)
    stream_id = plain(lambda: _context.stream_id)
    stream_kind = plain(lambda: _context.stream_kind)
    root = plain(lambda: _context.root)
    version = value(lambda: _context.version)
    is_detached = plain(lambda: _context.is_detached)
    came_between = plain(lambda: _context.came_between)
    version_at = awaited(lambda: _context.version_at)
    name_version = awaited(lambda: _context.name_version)
    names = awaited(lambda: _context.names)
    recorded_events = awaited(lambda: _context.recorded_events)
    refresh = awaited(lambda: _context.refresh)
    cleanup = awaited(lambda: _context.cleanup)
    flush = awaited(lambda: _context.flush)


class AsyncChat(AsyncContext["ChatContext"]):
    """A chat whose calls are awaited."""

    rebase = awaited(lambda: _chat.rebase)
    items = value(lambda: _chat.items)
    history = awaited(lambda: _chat.history)
    messages = awaited(lambda: _chat.messages)
    turn_count = awaited(lambda: _chat.turn_count)
    estimated_tokens = awaited(lambda: _chat.estimated_tokens)
    get_by_id = awaited(lambda: _chat.get_by_id)
    evicted_items = awaited(lambda: _chat.evicted_items)
    pinned_ids = awaited(lambda: _chat.pinned_ids)
    tail = awaited(lambda: _chat.tail)
    active_config_at = awaited(lambda: _chat.active_config_at)
    pending_calls = awaited(lambda: _chat.pending_calls)
    approvals = showing(lambda: _chat.approvals, lambda: AsyncApprovals)
    saved_states = showing(lambda: _chat.saved_states, lambda: AsyncSavedStates)
    to_dict = awaited(lambda: _chat.to_dict)
    to_openai_messages = awaited(lambda: _chat.to_openai_messages)
    to_openai_responses = awaited(lambda: _chat.to_openai_responses)
    to_anthropic_messages = awaited(lambda: _chat.to_anthropic_messages)
    to_google_contents = passed(lambda: _chat.to_google_contents)
    to_google_json = awaited(lambda: _chat.to_google_json)
    replay = awaited(lambda: _chat.replay)
    areplay = passed(lambda: _chat.areplay)
    recorded_items = awaited(lambda: _chat.recorded_items)
    fork = returning(lambda: _chat.fork, lambda: AsyncChat)
    fork_filtered = returning(lambda: _chat.fork_filtered, lambda: AsyncChat)
    fork_brief = returning(lambda: _chat.fork_brief, lambda: AsyncChat)
    copy = returning(lambda: _chat.copy, lambda: AsyncChat)
    add_message = awaited(lambda: _chat.add_message)
    stream = plain(lambda: _chat.stream)
    add_function_call = awaited(lambda: _chat.add_function_call)
    add_function_output = awaited(lambda: _chat.add_function_output)
    answer_call = awaited(lambda: _chat.answer_call)
    add_handoff = awaited(lambda: _chat.add_handoff)
    add_config_update = awaited(lambda: _chat.add_config_update)
    add_items = awaited(lambda: _chat.add_items)
    add_messages = awaited(lambda: _chat.add_messages)
    record_items = awaited(lambda: _chat.record_items)
    insert = awaited(lambda: _chat.insert)
    insert_many = awaited(lambda: _chat.insert_many)
    evict = awaited(lambda: _chat.evict)
    restore = awaited(lambda: _chat.restore)
    pin = awaited(lambda: _chat.pin)
    unpin = awaited(lambda: _chat.unpin)
    clear = awaited(lambda: _chat.clear)
    truncate = returning(lambda: _chat.truncate, lambda: AsyncChat)
    summary_failure = value(lambda: _chat.summary_failure)
    merge = returning(lambda: _chat.merge, lambda: AsyncChat)
    merge_result = returning(lambda: _chat.merge_result, lambda: AsyncChat)
    merge_with_summary = returning(lambda: _chat.merge_with_summary, lambda: AsyncChat)
    summarize = returning(lambda: _chat.summarize, lambda: AsyncChat)
    undo_summary = awaited(lambda: _chat.undo_summary)
    at = returning(lambda: _chat.at, lambda: AsyncChat)
    diff = awaited(lambda: _chat.diff)
    seen = returning(lambda: _chat.seen, lambda: AsyncChat)
    readonly = showing(lambda: _chat.readonly, lambda: AsyncChat)


class AsyncApprovals(AsyncProxy["Approvals"]):
    """The approvals of a chat; calls are awaited."""

    of = awaited(lambda: _approvals.of)
    request = awaited(lambda: _approvals.request)
    approve = awaited(lambda: _approvals.approve)
    reject = awaited(lambda: _approvals.reject)
    change = awaited(lambda: _approvals.change)
    pending = awaited(lambda: _approvals.pending)


class AsyncSavedStates(AsyncProxy["SavedStates"]):
    """The data of frameworks in a chat; calls are awaited."""

    save = awaited(lambda: _saved_states.save)
    last = awaited(lambda: _saved_states.last)
    all = awaited(lambda: _saved_states.all)
    at = awaited(lambda: _saved_states.at)


class AsyncQueue(AsyncContext["ContextQueue[Any]"]):
    """A queue whose calls are awaited."""

    rebase = passed(lambda: _queue.rebase)
    tags = value(lambda: _queue.tags)
    evicted = awaited(lambda: _queue.evicted)
    clear = passed(lambda: _queue.clear)
    evict = passed(lambda: _queue.evict)
    restore = passed(lambda: _queue.restore)
    change_settings = passed(lambda: _queue.change_settings)
    to_dict = awaited(lambda: _queue.to_dict)
    limit = value(lambda: _queue.limit)
    items = value(lambda: _queue.items)
    history = awaited(lambda: _queue.history)
    append = passed(lambda: _queue.append)
    merge = passed(lambda: _queue.merge)
    branch = returning(lambda: _queue.branch, lambda: AsyncQueue)
    at = returning(lambda: _queue.at, lambda: AsyncQueue)
    readonly = showing(lambda: _queue.readonly, lambda: AsyncQueue)


class AsyncPool(AsyncContext["ContextPool[Any]"]):
    """A pool whose calls are awaited."""

    rebase = passed(lambda: _pool.rebase)
    tags = value(lambda: _pool.tags)
    evicted = awaited(lambda: _pool.evicted)
    clear = passed(lambda: _pool.clear)
    evict = passed(lambda: _pool.evict)
    restore = passed(lambda: _pool.restore)
    change_settings = passed(lambda: _pool.change_settings)
    to_dict = awaited(lambda: _pool.to_dict)
    limit = value(lambda: _pool.limit)
    items = value(lambda: _pool.items)
    get = awaited(lambda: _pool.get)
    catalogue = awaited(lambda: _pool.catalogue)
    select = passed(lambda: _pool.select)
    add = passed(lambda: _pool.add)
    remove = passed(lambda: _pool.remove)
    merge = passed(lambda: _pool.merge)
    branch = returning(lambda: _pool.branch, lambda: AsyncPool)
    at = returning(lambda: _pool.at, lambda: AsyncPool)
    readonly = showing(lambda: _pool.readonly, lambda: AsyncPool)


class AsyncBudgetWindow(AsyncContext["ContextWindow"]):
    """A window whose calls are awaited."""

    rebase = awaited(lambda: _budget_window.rebase)
    max_tokens = value(lambda: _budget_window.max_tokens)
    policy = value(lambda: _budget_window.policy)
    items = value(lambda: _budget_window.items)
    births = value(lambda: _budget_window.births)
    get = awaited(lambda: _budget_window.get)
    build = awaited(lambda: _budget_window.build)
    estimated_tokens = awaited(lambda: _budget_window.estimated_tokens)
    dropped = awaited(lambda: _budget_window.dropped)
    evicted = awaited(lambda: _budget_window.evicted)
    add = awaited(lambda: _budget_window.add)
    put = awaited(lambda: _budget_window.put)
    remove = awaited(lambda: _budget_window.remove)
    evict = awaited(lambda: _budget_window.evict)
    restore = awaited(lambda: _budget_window.restore)
    clear = awaited(lambda: _budget_window.clear)
    at = returning(lambda: _budget_window.at, lambda: AsyncBudgetWindow)
    readonly = showing(lambda: _budget_window.readonly, lambda: AsyncBudgetWindow)


class AsyncAgentContext(AsyncProxy["AgentContext"]):
    """The context of a request, whose calls are awaited."""

    trace_id = plain(lambda: _agent_context.trace_id)
    endpoint_name = plain(lambda: _agent_context.endpoint_name)
    session_id = plain(lambda: _agent_context.session_id)
    user_id = plain(lambda: _agent_context.user_id)
    metadata = plain(lambda: _agent_context.metadata)
    context_window = showing(lambda: _agent_context.context_window, lambda: AsyncBudgetWindow)
    memory = plain(lambda: _agent_context.memory)
    add_context = awaited(lambda: _agent_context.add_context)


class AsyncMemory(AsyncProxy["Memory"]):
    """A memory whose calls are awaited."""

    scope = returning(lambda: _memory.scope, lambda: AsyncMemoryScope)
    get = passed(lambda: _memory.get)
    search = passed(lambda: _memory.search)
    history = passed(lambda: _memory.history)
    put = passed(lambda: _memory.put)
    forget = passed(lambda: _memory.forget)
    restore = passed(lambda: _memory.restore)
    at = returning(lambda: _memory.at, lambda: AsyncMemory)


class AsyncMemoryScope(AsyncContext["MemoryScope"]):
    """A scope of a memory whose calls are awaited."""

    rebase = awaited(lambda: _memory_scope.rebase)
    scope = plain(lambda: _memory_scope.scope)
    get = awaited(lambda: _memory_scope.get)
    search = awaited(lambda: _memory_scope.search)
    is_ahead = value(lambda: _memory_scope.is_ahead)
    put = awaited(lambda: _memory_scope.put)
    forget = awaited(lambda: _memory_scope.forget)
    restore = awaited(lambda: _memory_scope.restore)
    history = awaited(lambda: _memory_scope.history)
    at = awaited(lambda: _memory_scope.at)


class AsyncRun(AsyncContext["Run"]):
    """A run whose calls are awaited."""

    rebase = awaited(lambda: _run.rebase)
    user_id = plain(lambda: _run.user_id)
    session_id = plain(lambda: _run.session_id)
    run_id = plain(lambda: _run.run_id)
    sub_id = plain(lambda: _run.sub_id)
    agent = value(lambda: _run.agent)
    is_closed = value(lambda: _run.is_closed)
    register_query = awaited(lambda: _run.register_query)
    register_node = awaited(lambda: _run.register_node)
    modify_node = awaited(lambda: _run.modify_node)
    remove_node = awaited(lambda: _run.remove_node)
    add_edge = awaited(lambda: _run.add_edge)
    move_pointers = awaited(lambda: _run.move_pointers)
    restore_previous_runs = awaited(lambda: _run.restore_previous_runs)
    get_historical_trajectory = awaited(lambda: _run.get_historical_trajectory)
    get_all_historical_trajectories = awaited(lambda: _run.get_all_historical_trajectories)
    init_todolist = awaited(lambda: _run.init_todolist)
    append_todo = awaited(lambda: _run.append_todo)
    pop_todo = awaited(lambda: _run.pop_todo)
    return_step = awaited(lambda: _run.return_step)
    clear_steps = awaited(lambda: _run.clear_steps)
    record_messages = awaited(lambda: _run.record_messages)
    close = awaited(lambda: _run.close)
    steps = awaited(lambda: _run.steps)
    messages = awaited(lambda: _run.messages)
    context_text = awaited(lambda: _run.context_text)
    portray_with = awaited(lambda: _run.portray_with)
    profiling = awaited(lambda: _run.profiling)
    wait_portraits = passed(lambda: _run.wait_portraits)
    wait_pending_tasks = passed(lambda: _run.wait_pending_tasks)
    finish_portraits = awaited(lambda: _run.finish_portraits)
    node = awaited(lambda: _run.node)
    get_IR_from_node = awaited(lambda: _run.get_IR_from_node)
    nodes = awaited(lambda: _run.nodes)
    versions = awaited(lambda: _run.versions)
    history = awaited(lambda: _run.history)
    node_at = awaited(lambda: _run.node_at)
    graph = awaited(lambda: _run.graph)
    get_trajectory = awaited(lambda: _run.get_trajectory)
    get_active_branch = awaited(lambda: _run.get_active_branch)
    rounds = value(lambda: _run.rounds)
    initial = value(lambda: _run.initial)
    session_root = value(lambda: _run.session_root)
    predecessors = awaited(lambda: _run.predecessors)
    successors = awaited(lambda: _run.successors)
    ancestors = awaited(lambda: _run.ancestors)
    descendants = awaited(lambda: _run.descendants)
    lineage = awaited(lambda: _run.lineage)
    get_next_data_node = awaited(lambda: _run.get_next_data_node)
    get_previous_action_node = awaited(lambda: _run.get_previous_action_node)
    at = returning(lambda: _run.at, lambda: AsyncRun)
    diff = awaited(lambda: _run.diff)
    readonly = showing(lambda: _run.readonly, lambda: AsyncRun)


class AsyncStoreAt(AsyncProxy["StoreAt"]):
    """A store as it was, whose calls are awaited."""

    moment = plain(lambda: _store_at.moment)
    chat = returning(lambda: _store_at.chat, lambda: AsyncChat)
    queue = returning(lambda: _store_at.queue, lambda: AsyncQueue)
    pool = returning(lambda: _store_at.pool, lambda: AsyncPool)
    window = returning(lambda: _store_at.window, lambda: AsyncBudgetWindow)
    memory = returning(lambda: _store_at.memory, lambda: AsyncMemory)
    run = returning(lambda: _store_at.run, lambda: AsyncRun)
    contexts = awaited(lambda: _store_at.contexts)


class AsyncWhatIf(AsyncProxy["WhatIf"]):
    """Branches in memory, whose calls are awaited."""

    chat = returning(lambda: _what_if.chat, lambda: AsyncChat)
    queue = returning(lambda: _what_if.queue, lambda: AsyncQueue)
    pool = returning(lambda: _what_if.pool, lambda: AsyncPool)
    keep = awaited(lambda: _what_if.keep)


class AsyncWorker(AsyncProxy["WorkingThread"]):
    """A worker in a thread of its own; await `stop`."""

    stop = awaited(lambda: _worker.stop)


class AsyncStore(StoreProxy):
    """A store whose calls are awaited."""

    chat = returning(lambda: _store.chat, lambda: AsyncChat)
    queue = returning(lambda: _store.queue, lambda: AsyncQueue)
    pool = returning(lambda: _store.pool, lambda: AsyncPool)
    window = returning(lambda: _store.window, lambda: AsyncBudgetWindow)
    memory = returning(lambda: _store.memory, lambda: AsyncMemory)
    agent_context = returning(lambda: _store.agent_context, lambda: AsyncAgentContext)
    run = returning(lambda: _store.run, lambda: AsyncRun)
    release_runs = awaited(lambda: _store.release_runs)
    adopt = awaited(lambda: _store.adopt)
    now = awaited(lambda: _store.now)
    subscribe = returning(lambda: _store.subscribe, lambda: AsyncSubscription)
    flush = awaited(lambda: _store.flush)
    at = returning(lambda: _store.at, lambda: AsyncStoreAt)
    diff = awaited(lambda: _store.diff)
    what_if = returning(lambda: _store.what_if, lambda: AsyncWhatIf)
    name_moment = awaited(lambda: _store.name_moment)
    moments = awaited(lambda: _store.moments)
    contexts = awaited(lambda: _store.contexts)
    find_contexts = awaited(lambda: _store.find_contexts)
    validity = awaited(lambda: _store.validity)
    entries = awaited(lambda: _store.entries)
    lineage = awaited(lambda: _store.lineage)
    usage = awaited(lambda: _store.usage)
    pending_approvals = awaited(lambda: _store.pending_approvals)
    saved_states = awaited(lambda: _store.saved_states)
    rollup = awaited(lambda: _store.rollup)
    search = awaited(lambda: _store.search)
    audit = awaited(lambda: _store.audit)
    why_gone = awaited(lambda: _store.why_gone)
    run_nodes = awaited(lambda: _store.run_nodes)
    run_edges = awaited(lambda: _store.run_edges)
    run_graph = awaited(lambda: _store.run_graph)
    audit_node = awaited(lambda: _store.audit_node)
    add_projection = awaited(lambda: _store.add_projection)
    rows = awaited(lambda: _store.rows)
    projections = awaited(lambda: _store.projections)
    events_missed = awaited(lambda: _store.events_missed)
    on_folding = awaited(lambda: _store.on_folding)
    rebuild = awaited(lambda: _store.rebuild)
    check = awaited(lambda: _store.check)
    discard_rebuild = awaited(lambda: _store.discard_rebuild)
    start_projections = returning(lambda: _store.start_projections, lambda: AsyncWorker)
    verify = awaited(lambda: _store.verify)
    compare_with_witness = awaited(lambda: _store.compare_with_witness)
    witnessed = awaited(lambda: _store.witnessed)
    prove = awaited(lambda: _store.prove)
    prove_consistency = awaited(lambda: _store.prove_consistency)
    backup = awaited(lambda: _store.backup)
    vacuum = awaited(lambda: _store.vacuum)
    rotate_keys = awaited(lambda: _store.rotate_keys)
    erase = awaited(lambda: _store.erase)
    hold = awaited(lambda: _store.hold)
    release = awaited(lambda: _store.release)
    holds = awaited(lambda: _store.holds)
    retain = awaited(lambda: _store.retain)
    stop_retaining = awaited(lambda: _store.stop_retaining)
    policies = awaited(lambda: _store.policies)
    apply_retention = awaited(lambda: _store.apply_retention)
    archive = awaited(lambda: _store.archive)
    unarchive = awaited(lambda: _store.unarchive)
    archives = awaited(lambda: _store.archives)


# By the place of the sync class in this package.
_SIBLINGS: dict[str, type[AsyncProxy[Any]]] = {
    "domain.chat.context.ChatContext": AsyncChat,
    "domain.chat.approvals.Approvals": AsyncApprovals,
    "domain.chat.saved_states.SavedStates": AsyncSavedStates,
    "domain.pool.queue.ContextQueue": AsyncQueue,
    "domain.pool.pool.ContextPool": AsyncPool,
    "domain.window.window.ContextWindow": AsyncBudgetWindow,
    "domain.window.window.AgentContext": AsyncAgentContext,
    "domain.memory.memory.Memory": AsyncMemory,
    "domain.memory.memory.MemoryScope": AsyncMemoryScope,
    "domain.trajectory.run.Run": AsyncRun,
    "infrastructure.queries.at.StoreAt": AsyncStoreAt,
    "infrastructure.queries.what_if.WhatIf": AsyncWhatIf,
    "infrastructure.projecting.worker.WorkingThread": AsyncWorker,
    "infrastructure.store.Store": AsyncStore,
}


@overload
def to_async(wrapped: ChatContext) -> AsyncChat: ...
@overload
def to_async(wrapped: Approvals) -> AsyncApprovals: ...
@overload
def to_async(wrapped: SavedStates) -> AsyncSavedStates: ...
@overload
def to_async(wrapped: ContextQueue[Any]) -> AsyncQueue: ...
@overload
def to_async(wrapped: ContextPool[Any]) -> AsyncPool: ...
@overload
def to_async(wrapped: ContextWindow) -> AsyncBudgetWindow: ...
@overload
def to_async(wrapped: AgentContext) -> AsyncAgentContext: ...
@overload
def to_async(wrapped: Memory) -> AsyncMemory: ...
@overload
def to_async(wrapped: MemoryScope) -> AsyncMemoryScope: ...
@overload
def to_async(wrapped: Run) -> AsyncRun: ...
@overload
def to_async(wrapped: StoreAt) -> AsyncStoreAt: ...
@overload
def to_async(wrapped: WhatIf) -> AsyncWhatIf: ...
@overload
def to_async(wrapped: WorkingThread) -> AsyncWorker: ...
@overload
def to_async(wrapped: Store) -> AsyncStore: ...
def to_async(wrapped: Any) -> Any:
    """
    Return the async sibling of a store, of a context, or of a memory, which shares everything with it.

    For any other object it returns a proxy whose methods and properties are awaited, without their types.
    """
    names = (f"{kind.__module__.partition('.')[2]}.{kind.__name__}" for kind in type(wrapped).__mro__)
    return next((_SIBLINGS[name] for name in names if name in _SIBLINGS), AsyncProxy)(wrapped)
