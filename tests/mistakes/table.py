"""
The table of mistakes: a call, its error, and a part of the message.

In a call, `store` is a store; `chat`, `queue`, `pool`, `window` and `run` are contexts of it, `item` is an item of the
chat, `model` is a model, `NUMBER` is a UUID, and `DEEP` is a list in a list, and so on, 5,000 deep. The functions of
`exchange` and `importing` have their names. The chat is at version 5.
"""

from typing import Any, NamedTuple
from uuid import UUID

from refold.domain.errors import (
    ConcurrencyError,
    DecisionRefusedError,
    IdempotencyError,
    InvalidInputError,
    MissingFieldError,
    NotFoundError,
    RefoldError,
)


class Mistake(NamedTuple):
    """A call, the class of its error, and a text in its message."""

    call: str
    error: type[RefoldError]
    message: str


def wrong(message: str, *calls: str, error: type[RefoldError] = InvalidInputError) -> list[Mistake]:
    """Return calls that are the same mistake."""
    return [Mistake(call, error, message) for call in calls]


def item_from(**fields: Any) -> str:
    """Return the plain form of a context whose second item has these fields."""
    good = {"id": "a", "type": "message", "role": "user", "content": "hi"}
    return f"refold.ChatContext.from_dict({ {'items': [good, fields]}!r})"


IDS = [
    *wrong("an id is a text", "store.chat(None)", "store.queue(5)", "store.pool(b'x')", "store.window(None)"),
    *wrong("an id is a text", "chat.fork(5)", "queue.branch(context_id=5)", "store.adopt(refold.ChatContext(), None)"),
    *wrong("it has 0 bytes of UTF-8", "store.chat('')", "chat.fork('')", "queue.branch(context_id='')"),
    *wrong("the session of chat:new is 5: it is a text", "store.chat('new', session=5)"),
    *wrong("exists already: fork under another id", "chat.fork('talk')"),
    *wrong("user_id is None", "store.run(None, 's')"),
    *wrong("run_id is '1'", "store.run('mia', 's', '1')"),
    *wrong("the name of a context is None", "store.audit(None)", "store.validity(None)", "store.why_gone(None, 'x')"),
    *wrong("the item is 5", "store.why_gone('talk', 5)"),
    *wrong("give a detached one, as ChatContext()", "store.adopt('talk', 'new')", "store.adopt(None, 'new')"),
    *wrong("cannot name a version", "chat.name_version(5)", "chat.name_version('')"),
    *wrong("cannot name a moment", "store.name_moment(None)", "store.name_moment('2031-05-01')"),
    *wrong("the user is empty: give the name of one", "store.erase(user='', why='x')"),
    *wrong("there is no projection 'nope'", "store.start_projections('nope')", error=NotFoundError),
    *wrong("tell is 'x': give a function", "store.on_folding('x')"),
    *wrong("the user is 3: it is a text", "store.erase(user=3, why='x')"),
    *wrong("cannot name a policy", "store.retain('a b', 3, kind='chat', why='x')"),
    *wrong("the version is '3'", "chat.name_version('here', '3')"),
    *wrong("has no version 99", "chat.name_version('here', 99)", "chat.at(99)", error=NotFoundError),
    *wrong("has no version named 'x', nor an item with this id (names: none yet)", "chat.at('x')", error=NotFoundError),
    *wrong(
        "has no version named 'x' (names: none yet)",
        "queue.at('x')",
        "pool.at('x')",
        "window.at('x')",
        "run.at('x')",
        error=NotFoundError,
    ),
    *wrong("None names no moment", "chat.at(None)", "store.at(None)"),
    *wrong("has no time zone", "chat.at('2026-11-21 10:00')"),
    *wrong("item:ID and happened:TIME go with chats", "queue.at('item:x')", "window.at('happened:2026-11-21')"),
]
NAMES = [
    *wrong("the item is ['a']: it is a text", "store.audit('talk', item=['a'])", "chat.active_config_at(['a'])"),
    *wrong("the name of a projection is ['a']: it is a text", "store.rows(['a'])", "store.rebuild(['a'])"),
    *wrong("the name of a projection is None: it is a text", "store.check(None)"),
    *wrong("the id of an item is ['a']: it is a text", "pool.get(['a'])", "pool.remove(['a'])"),
    *wrong("the item is ['a']: it is a text", "chat.get_by_id(['a'])", "store.erase(item=['a'], why='x')"),
    *wrong("the summary is ['a']: it is a text", "chat.undo_summary(['a'])"),
    *wrong("the names, number 1, is ['a']: it is a text", "pool.restore('x', ['a'])", "queue.restore('x', ['a'])"),
    *wrong("the name of a policy is ['a']: it is a text", "store.stop_retaining(['a'], why='x')"),
    *wrong("the query is 5: it is a text", "pool.select(5)"),
    *wrong(
        "the key is ['a']: it is a text",
        "window.get(['a'])", "window.remove(['a'])", "store.memory().get(scope='mia', key=['a'])",
        "store.memory().scope('mia').forget(['a'])", "store.memory().scope('mia').restore(['a'])",
        "store.memory().scope('mia').history(['a'])",
    ),
    *wrong("key_prefix is 5: it is a text", "store.memory().search(scope='mia', key_prefix=5)"),
    *wrong("tag is ['a']: it is a text", "store.memory().scope('mia').search(tag=['a'])"),
]  # fmt: skip
DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]
DEPTHS = [
    *wrong("metadata: its lists and dicts are nested", "chat.add_function_call('f', '{}', metadata={'a': DEEP})"),
    *wrong("settings: its lists and dicts are nested too deep", "chat.add_config_update(settings={'a': DEEP})"),
    *wrong("nested too deep", "chat.add_config_update(tools=[{'name': 'f', 'parameters': DEEP}])"),
    *wrong("nested too deep", "chat.add_message('user', 'x', usage={'input_tokens': 1, 'a': DEEP})"),
    *wrong("items[0], field extra: its lists and dicts are nested too deep", "refold.ChatContext.from_dict({'items': "
           "[{'type': 'message', 'id': 'a', 'role': 'user', 'content': 'x', 'extra': {'a': DEEP}}]})"),
    *wrong("cannot be stored as JSON", "store.chat('deep', attributes={'a': DEEP})"),
    *wrong("nested too deep", "chat.add_messages({'role': 'user', 'content': 'x', 'more': DEEP})"),
    *wrong("nested too deep", "chat.add_messages([{'role': 'user', 'content': DEEP}])"),
    *wrong("nested too deep", "chat.from_openai_messages([{'role': 'user', 'content': DEEP}])"),
    *wrong("nested too deep", "chat.from_anthropic_messages([], system=DEEP)"),
    *wrong("nested too deep", "chat.from_google_contents([{'role': 'user', 'parts': DEEP}])"),
    *wrong("the type object is not JSON; `register_content` says", "pool.add(refold.PoolItem(object(), 'd', 'x'))"),
    *wrong("the content of item 'deep' cannot be stored", "pool.add(refold.PoolItem(DEEP, 'd', 'deep'))"),
]  # fmt: skip
ITEMS = [
    *wrong("the items: found None", "chat.add_items(None)", "chat.insert_many(None)"),
    *wrong("the items: found a str", "chat.add_items('hello')"),
    *wrong("the messages: found None", "chat.from_openai_messages(None)", "chat.from_anthropic_messages(None)"),
    *wrong("the entries: found a str", "chat.from_openai_responses('hi')"),
    *wrong("the contents: found a int", "chat.from_google_contents(5)"),
    *wrong("the items: found a ChatMessage", "chat.add_items(item)"),
    *wrong("is no item of a chat", "chat.add_items([{'role': 'user', 'content': 'x'}])", "chat.insert('hello')"),
    *wrong("is no item of a chat", "refold.ChatContext([{'role': 'user'}])", "chat.add_items([item, None])"),
    *wrong(
        "its class is Own, and no event has one; give a ChatMessage itself",
        "chat.add_items([type('Own', (refold.ChatMessage,), {})(role='user', content='x')])",
    ),
    *wrong("the ids: found None", "chat.evict(None)", "chat.pin(None)"),
    *wrong("the ids: found a int", "chat.evict(5)", "chat.restore(5)", "chat.unpin(5)"),
    *wrong("the ids: found a ChatMessage", "chat.evict(item)"),
    *wrong("the ids, number 1, is 5", "chat.evict([item.id, 5])"),
    *wrong("has no item 'nobody'", "chat.evict('nobody')", "chat.restore('nobody')", error=NotFoundError),
]
NUMBERS = [
    *wrong("expected_version is '5': take a whole number", "chat.add_message('user', 'x', expected_version='5')"),
    *wrong("expected_version is 5.0", "chat.evict(item.id, expected_version=5.0)"),
    *wrong("expected_version is True", "queue.append(refold.PoolItem('x'), expected_version=True)"),
    *wrong("expected_version is -1", "window.add(refold.BudgetItem('k', 'v', 's'), expected_version=-1)"),
    *wrong("has no version 99 yet", "chat.add_message('user', 'x', expected_version=99)", error=ConcurrencyError),
    *wrong("max_items is -1: take 0 or more", "chat.truncate(-1)", "refold.ChatContext().truncate(max_items=-1)"),
    *wrong("max_tokens is -8: take 0 or more", "chat.truncate(max_tokens=-8)", "store.window('new', max_tokens=-8)"),
    *wrong("max_tokens is -8: take 0 or more", "refold.BudgetWindow(-8)", "refold.ChatWindow(max_tokens=-8)"),
    *wrong("max_items is '5'", "chat.truncate('5')"),
    *wrong("max_tokens is 2.5", "chat.truncate(max_tokens=2.5)"),
    *wrong("the counter is 'x': give a function", "chat.truncate(1, counter='x')", "chat.estimated_tokens('x')"),
    *wrong("limit must be >= 1", "store.queue('new', limit=0)", "store.pool('new', limit=-1)"),
    *wrong("the count is '3'", "chat.tail('3')"),
    *wrong("the step is [1]: take a whole number", "run.return_step([1])"),
    *wrong("current_run_id is '1': take a whole number", "run.restore_previous_runs(current_run_id='1')"),
    *wrong("sub_id is '1': take a whole number", "run.restore_previous_runs(sub_id='1')"),
    *wrong("the version of a node is 1.5: take a whole number", "run.node_at('Query(x)', 1.5)"),
    *wrong("the count is -1: take 0 or more", "chat.tail(-1)"),
    *wrong("after is 'x'", "chat.history(after='x')"),
    *wrong("after is None: take a whole number", "chat.history(after=None)", "run.recorded_events(after=None)"),
    *wrong("run_id is [1]: take a whole number", "run.get_historical_trajectory([1])"),
    *wrong("until is -1", "chat.history(until=-1)"),
    *wrong("recent_turns is '3'", "chat.fork_filtered('3')"),
    *wrong("keep_recent_turns is '3'", "chat.summarize(model, keep_recent_turns='3')"),
    *wrong("limit is 'x'", "store.find_contexts(limit='x')", "store.search('x', limit='x')"),
    *wrong("limit is True", "store.find_contexts(limit=True)", "store.search('x', limit=True)"),
    *wrong("limit is 1.5", "pool.select('x', limit=1.5)", "store.memory().scope('mia').search(limit=1.5)"),
    *wrong("last is '3'", "queue.history('3')"),
    *wrong("last is 1.5", "queue.history(1.5)"),
    *wrong("since is 'x': give an aware datetime", "store.find_contexts(since='x')"),
]
KEYS = [
    *wrong("the idempotency key is empty", "chat.add_message('user', 'x', idempotency_key='')"),
    *wrong("the idempotency key is empty", "chat.fork('new', idempotency_key='')", "run.close(idempotency_key='')"),
    *wrong("the idempotency key is empty", "store.transaction(idempotency_key='').__enter__()"),
    *wrong("the idempotency key is 5", "chat.add_message('user', 'x', idempotency_key=5)"),
    *wrong(
        "the idempotency key holds a lone surrogate",
        r"chat.fork(idempotency_key='\ud800')",
        r"queue.branch(idempotency_key='\ud800')",
    ),
    *wrong("stands for another call", "chat.add_message('user', 'x', idempotency_key='k')", error=IdempotencyError),
    *wrong("stands for another call", "chat.evict(item.id, idempotency_key='k')", error=IdempotencyError),
    *wrong("which names no event", "refold.acting(because='a ticket').__enter__()"),
    *wrong("which names no event", "refold.acting(because='chat:talk@0').__enter__()"),
    *wrong("which names no event", "refold.acting(because='talk@1').__enter__()"),
    *wrong("which names no event", "refold.acting(because='chat:talk@' + '0' * 17 + '1' * 5_000).__enter__()"),
    *wrong("which names no event", "refold.acting(because='chat:talk@2147483648').__enter__()"),
    *wrong("because is 5", "refold.acting(because=5).__enter__()"),
    *wrong("the actor is 5", "refold.acting(actor=5).__enter__()"),
]
OTHERS = [
    *wrong("the changes are 5: give a dict", "run.modify_node('Query(x)', 5)"),
    *wrong("pre_workflow is 5: give a list of steps", "run.init_todolist(5)", "setattr(run, 'pre_workflow', 5)"),
    *wrong("pre_workflow is 'load': give a list of steps", "run.init_todolist('load')"),
    *wrong("post_workflow is {'name': 'a'}: give a list", "setattr(run, 'post_workflow', {'name': 'a'})"),
    *wrong("steps_max is 'x': take a whole number", "setattr(run, 'steps_max', 'x')"),
    *wrong("steps_max is -1: take 0 or more", "setattr(run, 'steps_max', -1)"),
    *wrong("hooks is 5: give a list of hooks", "setattr(queue, 'hooks', 5)", "setattr(pool, 'hooks', 5)"),
    *wrong("give a chat", "chat.merge('talk')", "chat.merge(None)", "chat.merge_result(queue)"),
    *wrong("give a chat", "chat.merge_with_summary('talk', llm=model)"),
    *wrong("the other side is None: give a queue", "queue.merge(None)"),
    *wrong("a queue cannot be merged into a pool", "pool.merge(queue)"),
    *wrong("the record is None: give a MemoryRecord", "store.memory().put(None)"),
    *wrong("the record is 'x': give a MemoryRecord", "store.memory().scope('mia').put('x')"),
    *wrong(
        "the data is None: give a dict", "refold.ContextQueue.from_dict(None)", "refold.ContextPool.from_dict(None)"
    ),
    *wrong("the hooks: found a int", "queue.branch(hooks=5)"),
    *wrong("usage by None: take some of day, agent", "store.usage(by=None)"),
    *wrong("thought_signatures is 'x': give a dict", "chat.to_google_json(thought_signatures='x')"),
    *wrong("processes is 'x': take a whole number", "store.verify(processes='x')"),
    *wrong("the file is None: give a path", "store.backup(None)", "refold.restore(None, 'x')", "refold.KeyFile(None)"),
    *wrong("the file is 5: give a path", "store.archive(5, 'chat:talk', why='x')"),
    *wrong("the file 'a\\x00b' holds a NUL", r"store.backup('a\0b')", r"refold.KeyFile('a\0b')"),
    *wrong("base is 'x'", "chat.merge(refold.ChatContext(), base='x')"),
    *wrong("on_conflict is 'x'", "chat.merge(refold.ChatContext(), on_conflict='x')"),
    *wrong("give an object with the method `chat`", "chat.summarize(None)", "chat.summarize('gpt-5')"),
    *wrong("give an object with the method `chat`", "chat.merge_with_summary(chat, llm=None)"),
    *wrong("the change is None: give a function", "chat.rebase(None)", "queue.rebase(None)"),
    *wrong("the policy is 5: give a function", "chat.replay(5)"),
    *wrong("the tools: found a int", "chat.fork_filtered(tools=5)", "chat.copy(tools=5)"),
    *wrong("the instructions is 5", "chat.fork_brief(5)"),
    *wrong("after is 5: give a moment", "store.subscribe(after=5)"),
    *wrong("kinds: found a int", "store.subscribe(kinds=5)"),
    *wrong("the type of hook is []", "queue.has_hooks([])"),
    *wrong("the store is 5: give an open one", "refold.inspector(5)"),
    *wrong("redact is 5: give a function", "refold.inspector(store, redact=5)"),
    *wrong("hosts: found a int", "refold.inspector(store, hosts=5)"),
    *wrong("the name is 5: it is a text", "refold.inspector(store, name=5)"),
    *wrong("system is 5", "refold.open(':memory:', system=5)", "refold.ChatContext(system=5)"),
    *wrong("stop is None: give a threading.Event", "store.run_projections(None)"),
    *wrong(
        "stop is 5: give a function",
        "store.verify(stop=5)",
        "store.check('catalogue', stop=5)",
        "store.rebuild('catalogue', stop=5)",
    ),
    *wrong(
        "progress is 5: give a function",
        "store.verify(progress=5)",
        "store.check('catalogue', progress=5)",
        "store.rebuild('catalogue', progress=5)",
        "store.backup('never.backup', progress=5)",
        "refold.restore('never.backup', 'never.db', progress=5)",
        "export_events(store.log, 'never.jsonl', progress=5)",
        "export_parquet(store.log, 'never.parquet', progress=5)",
        "take_in_events(store.log, 'never.jsonl', progress=5)",
        "import_runs(store, [], progress=5)",
        "import_as_runs(store, [], progress=5)",
    ),
    *wrong("the location is of the type bytes: give", "refold.open(b'postgresql://mia:secret@host/name')"),
    *wrong("synchronous is 'off': take FULL, NORMAL or EXTRA", "refold.open(':memory:', synchronous='off')"),
    *wrong("cannot be changed", "queue.at(1).clear()", error=DecisionRefusedError),
    *wrong("read-only", "chat.at(1).add_message('user', 'x')", error=DecisionRefusedError),
]
FIELDS = [
    *wrong("role: Input should be 'system', 'developer', 'user' or 'assistant', found 'robot'",
           "chat.add_message('robot', 'x')", "chat.stream('robot')"),
    *wrong("content: give a text, or a list of texts and ImageContents, found None", "chat.add_message('user', None)"),
    *wrong("content[1]: give a text or an ImageContent, found 1", "chat.add_message('user', ['x', 1])"),
    *wrong("content[0]: a data URL needs a comma", "chat.add_message('user', [{'image': 'data:x'}])"),
    *wrong("arguments: give a text, as json.dumps() makes one, found {'a'", "chat.add_function_call('f', {'a': 1})"),
    *wrong("output: give a text, as json.dumps() makes one, found 5", "chat.add_function_output('f', 5, 'c1')"),
    *wrong("tools[1]: ", "chat.add_config_update(tools=['f', 5])"),
]  # fmt: skip
APPROVALS = [
    *wrong("the call is 5: it is a text", "chat.approvals.request(5)", "chat.approvals.approve(5, by='mia')"),
    *wrong("the call is ['c1']: it is a text", "chat.seen(['c1'])", "chat.approvals.of(['c1'])"),
    *wrong("has no call 'nope'", "chat.approvals.reject('nope', by='mia')", error=NotFoundError),
    *wrong("has no call 'nope'", "chat.answer_call('nope', 'x')", "chat.approvals.of('nope')", error=NotFoundError),
    *wrong("no call with the id or call id 'nope'", "chat.seen('nope')", error=NotFoundError),
    *wrong("by is 5: give the name", "chat.approvals.approve('c1', by=5)", "chat.approvals.request('c1', by=5)"),
    *wrong("by is ' ': give the name", "chat.approvals.reject('c1', by=' ')"),
    *wrong("give a JSON object", "chat.approvals.change('c1', 5, by='mia')", "chat.approvals.change('c1', [], by='m')"),
    *wrong("give a JSON object", "chat.approvals.change('c1', None, by='mia')"),
    *wrong("the arguments cannot be stored as JSON", "chat.approvals.change('c1', {'a': b'x'}, by='mia')"),
    *wrong("the arguments are no JSON", "chat.approvals.change('c1', 'all of it', by='mia')"),
    *wrong("pending is 'skip': take 'stub', 'omit' or 'refuse'", "chat.to_openai_messages(pending='skip')",
           "chat.to_anthropic_messages(pending='skip')", "chat.to_google_json(pending='skip')"),
    *wrong("the role 'system' is in force as a whole", "chat.stream('system')"),
    *wrong("usage is {'inputTokens': 5}", "chat.add_message('user', 'x', usage={'inputTokens': 5})"),
]  # fmt: skip
PLAIN_DATA = [
    *wrong("give an object with `items`", "refold.ChatContext.from_dict(None)", "refold.ChatContext.from_dict([])"),
    *wrong("the field items is missing", "refold.ChatContext.from_dict({})", error=MissingFieldError),
    *wrong("items: found a int", "refold.ChatContext.from_dict({'items': 5})"),
    *wrong("items[0] is 5", "refold.ChatContext.from_dict({'items': [5]})"),
    *wrong("items[1], field type: missing", item_from(id="b"), error=MissingFieldError),
    *wrong("items[1], field content: missing", item_from(type="message", id="b", role="user"), error=MissingFieldError),
    *wrong("items[1], field role: ", item_from(type="message", id="b", role="robot", content="hi")),
    *wrong("items[1], field content: ", item_from(type="message", id="b", role="user", content=5)),
    *wrong("items[1], field arguments: ", item_from(type="function_call", id="b", name="f", arguments={}, call_id="")),
]
# A reason is a text on each call that takes one.
WITH_REASONS = (
    "chat.approvals.request('c1', because={})", "chat.approvals.approve('c1', by='mia', because={})",
    "chat.approvals.reject('c1', by='mia', because={})", "chat.approvals.change('c1', {{}}, by='mia', because={})",
    "chat.add_handoff('tom', 'mia', {})", "queue.evict('queue:notes@1', reason={})",
    "pool.evict('pool:docs@1', reason={})", "pool.remove('x', reason={})", "window.evict('window:prompt@1', reason={})",
    "window.remove('x', reason={})", "run.remove_node('x', reason={})", "run.close({})",
    "store.memory().scope('mia').forget('x', reason={})", "chat.evict(item.id, reason={})",
    "chat.pin(item.id, reason={})", "chat.clear(reason={})", "chat.truncate(2, reason={})",
)  # fmt: skip
REASONS = [
    *[Mistake(call.format("NUMBER"), InvalidInputError, "reason") for call in WITH_REASONS],
    *[Mistake(call.format(r"'\ud800'"), InvalidInputError, "lone surrogate") for call in WITH_REASONS],
]
# The encoder would write such an object as a text.
NUMBER = UUID(int=7)
TEXTS = [
    *wrong("agent", "store.chat('new', agent=NUMBER)", "chat.fork(agent=NUMBER)", "chat.fork_filtered(agent=NUMBER)"),
    *wrong("the source of chat:new is UUID(", "store.chat('new', source=NUMBER)"),
    *wrong("the actor is UUID(", "refold.acting(actor=NUMBER).__enter__()"),
    *wrong("the correlation id is UUID(", "refold.acting(correlation_id=NUMBER).__enter__()"),
]
MISTAKES = [*REASONS, *TEXTS, *IDS, *NAMES, *DEPTHS, *ITEMS, *NUMBERS, *KEYS, *OTHERS, *FIELDS, *APPROVALS, *PLAIN_DATA]
