"""Defects that no test can notice, by file and by the line with the defect in it, each with the reason."""

_NO_PLACE = "an item that left has no place: one that comes back gets a new one, and nothing reads this"
_ONE_BY_ITSELF = "this orders those that one event brings back; where an event brings one alone any number does"
_BEATS = "a beat need only be another one than the last, and a worker gets its place before anybody sees it"
_SET_BEFORE = "it is set with what makes it be read"
_ONE_MORE = "one event more is looked at, on the same side of the moment"

EQUIVALENT = {
    ("domain/chat/context.py", "if (plan is None and (not text.strip())):"): (
        "a plan tells messages, calls and outputs alone, each of which gives a line that is not blank"
    ),
    ("domain/chat/rules/edits.py", "whole = totals_of(written(message, [((state.version - 1), piece)]))"): (
        "the version of a piece counts no tokens"
    ),
    ("domain/chat/state/sequence.py", "if (at <= self.reach):"): "the total of no items is nothing",
    ("domain/chat/state/sequence.py", "if isinstance(ordinals, range) and ordinals.step == 2:"): (
        "the loop behind it finds the same end of a run, one item after the other"
    ),
    ("infrastructure/trust/selection.py", "after = start - 2 if start == first and (start >= 1) else start - 1"): (
        "whatever is asked for before the first event, a stream is read from its beginning"
    ),
    ("infrastructure/trust/checkpoints.py", 'pass  # not self.failure = ""'): (
        "`start` reaches the witness or notes why not, before anybody asks"
    ),
    (
        "infrastructure/trust/witness.py",
        "if opened.writer not in self.writers or (self.writers[opened.writer].time <= opened.time):",
    ): "what a writer said at one time is the same",
    (
        "infrastructure/queries/entries.py",
        "return sorted(counted, key=lambda step: (step.version, (step.kind == LEFT)))",
    ): "an entry in whose place another one comes is not named among those that leave with that event",
    (
        "infrastructure/queries/intervals.py",
        "if found == len(self._clears) or (end and (end <= self._cleared_at[found])):",
    ): "no item leaves or comes with the event that clears, by itself",
    (
        "infrastructure/queries/pages.py",
        "rows = runner.page(projection, after=max(prefix, after), before=before, limit=limit + 2)",
    ): "one row more is read, and left out",
    (
        "infrastructure/log/evidence.py",
        "for recorded in read(after=max(version - 2, 0), until=version + 1):",
    ): _ONE_MORE,
    (
        "infrastructure/log/evidence.py",
        "for recorded in read(after=max(version - 1, 0), until=version + 2):",
    ): _ONE_MORE,
    (
        "infrastructure/log/database_log.py",
        "if lane not in self._last_by_slice or (self._last_by_slice[lane].number <= number):",
    ): "each position has one event",
    (
        "infrastructure/frameworks/agent_framework.py",
        "new = filter_new_messages(_of_framework(found.last(len(messages) + 2)), messages)",
    ): "one message more says no more of whether the history is longer",
    (
        "infrastructure/projecting/partitions.py",
        "is_stopped = False",
    ): "a plan that was called off is no longer the plan",
    ("domain/chat/item_list.py", "arrived = [*recorded.arrivals()] if (len(missing) >= FEW) else None"): (
        "both ways give the same versions, in another time"
    ),
    (
        "domain/chat/replay.py",
        "pieces.setdefault(begins + event.item.version - 1, []).append(((place + begins) + 1, event))",
    ): "of the version of a message's last piece a replay reads only whether there is one",
    (
        "infrastructure/importing/importer.py",
        "chat = store.chat(run.context_id, user=user, create=True)",
    ): "it is there, and contexts do not go",
    ("infrastructure/log/sqlite/append.py", "pass  # not self._is_alone = True"): _SET_BEFORE,
    ("domain/memory/memory.py", "catch_up: bool = True,"): "each caller says it",
    (
        "infrastructure/projecting/rows/sqlite.py",
        "return [*gone, *(drop for name in others for drop in _dropping(self.sql.table_of(name, 1)))]",
    ): "the name of a table in a file says no version",
    (
        "domain/context/transaction.py",
        "if (REAL_SYSTEM.monotonic() > deadline):",
    ): "no clock stops at it",
    (
        "infrastructure/frameworks/claude.py",
        'earlier = None if data is None else SessionSummaryEntry(session_id=key["session_id"], mtime=1, data=data)',
    ): "of an earlier summary its data alone is read",
    (
        "domain/chat/state/unread_items.py",
        "self._asked = 1",
    ): "an index is made one question earlier, and answers the same",
    ("infrastructure/projecting/leases.py", "self._beat = 1"): _BEATS,
    ("infrastructure/projecting/leases.py", "self._beat += 2"): _BEATS,
    ("infrastructure/projecting/leases.py", "self._place = self._beat = 1"): _BEATS,
    ("infrastructure/projecting/leases.py", "pass  # not self._held_at = 0.0"): _SET_BEFORE,
    ("infrastructure/projecting/leases.py", "pass  # not self._seen_at = 0.0"): _SET_BEFORE,
    ("infrastructure/projecting/leases.py", "pass  # not self._noted_at = 0.0"): _SET_BEFORE,
    (
        "infrastructure/helper_process.py",
        "page = events.read_all(after=Moment.of({**heads, lane: number - 1}), limit=2, until=end)",
    ): "between the event before the end and the end is only one event",
    (
        "infrastructure/log/sqlite/side_tables.py",
        "for (joined,) in connection.execute(DIGESTS_OF_BLOCKS, (((first + 1)) // (last - first + 1),)):",
    ): "a segment has more than two positions",
    ("infrastructure/log/sqlite/append.py", "EMPTY: Last = (0, 1, NO_DIGEST)"): (
        "events are recorded after the first microsecond of 1970"
    ),
    ("infrastructure/frameworks/langgraph/checkpoint.py", "self._last = 1"): (
        "the version is set when the checkpoint is saved, and read after that"
    ),
    (
        "infrastructure/cli/args.py",
        "with open_store(given_database(), create=True, **opening_options()) as store, _in_use(store, own):",
    ): "it was opened for reading just before, so that it is there",
    ("domain/window/state.py", "return Held(version, event, (0, 1))"): _NO_PLACE,
    ("domain/window/state.py", "return Held(version, event, (1, 0))"): _NO_PLACE,
    ("domain/window/state.py", "return _with(state, Held(version, recorded, (version, 1)))"): _ONE_BY_ITSELF,
    ("domain/trajectory/descriptions.py", "pass  # not end.cancel()"): (
        "Python looks itself whether the loop was closed before the task was done"
    ),
    (
        "infrastructure/log/postgres/cached_append.py",
        "return ends if len(ends) == 1 or len({end.slice for end in ends}) == len(ends) > 1 else None",
    ): "one end alone is looked at first",
    ("infrastructure/log/postgres/append.py", "last = max((key for _, key, _ in rows), default=1)"): (
        "the numbers of types of events need only differ"
    ),
    ("infrastructure/exchange/event_files.py", "data = opened.readline(LINE_BYTES_MAX + 2)"): (
        "a line is too long as soon as one byte more than LINE_BYTES_MAX was read"
    ),
    ("infrastructure/inspector/item_answers.py", "chat = store.chat(context_id, create=True)"): (
        "a context that is not there was refused before"
    ),
    ("infrastructure/exchange/rehearsal.py", "context = getattr(store, kind)(context_id, create=True)"): (
        "each stream of a file has a line"
    ),
    (
        "infrastructure/verifying/event_check.py",
        "holes += _holes(number, [place for place, _ in places], heads.get(number, 1))",
    ): "a slice without a head has an event at 1 or behind it",
    ("infrastructure/log/sqlite/read.py", 'version, digest = last.get(key, (-2, b""))'): (
        "no event has either of the two versions"
    ),
    (
        "infrastructure/round_files/files.py",
        "return json.dumps(form, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=True).encode()",
    ): "an event holds no number that JSON has not",
    ("infrastructure/log/compression.py", 'says = f"{size:,} bytes" if (size > 0) else "no size"'): (
        "an empty content is small enough, and this is said of too large ones and of unknown ones"
    ),
    ("infrastructure/log/compression.py", 'says = f"{size:,} bytes" if size >= 1 else "no size"'): (
        "an empty content is small enough, and this is said of too large ones and of unknown ones"
    ),
    ("infrastructure/log/sqlite/append.py", "self._is_alone = False"): (
        "before anything is remembered of the log nobody reads it, and what reads the log sets it"
    ),
    (
        "infrastructure/recorders/datastore.py",
        "return self.committer.submit(Job(appender, request), wait=False).result()",
    ): "the result is waited for behind it, while another thread commits",
    ("infrastructure/log/postgres/ends.py", "REST_FACTOR = 5"): "a thread rests a little longer from what may wait",
    ("infrastructure/log/postgres/ends.py", "if (now > known.full_look_at):"): "all slices are asked a moment later",
    ("infrastructure/log/postgres/planning.py", 'chance = int.from_bytes(os.urandom(11), "big")'): (
        "the number of random bits beyond those that are used does not matter"
    ),
    (
        "infrastructure/log/sqlite/append.py",
        "if self._left_at != self._last[2] or (len(self._heads) >= HEADS_MAX):",
    ): "the ends of one stream less are remembered before all are forgotten, and read again",
    ("infrastructure/projecting/rows/sqlite.py", 'pass  # not self._connection.execute(f"PRAGMA {pragma}")'): (
        "they say how rows lie in a temporary file that nobody else sees, and how quickly they are there"
    ),
    ("infrastructure/projecting/rows/database.py", "@dataclass(frozen=False, eq=False)"): (
        "nothing assigns to its fields, and it is compared by identity"
    ),
    ("projections/catalogue.py", "version: int = 1"): "a row gets the version of its last event as soon as it is made",
    ("infrastructure/log/postgres/planning.py", "if slice_end is not None and (len(slice_end.blobs) >= BLOBS_MAX):"): (
        "texts are forgotten one text earlier, and read again"
    ),
    ("infrastructure/log/background.py", "while (monotonic() <= self._deadline):"): (
        "the deadline would have to come to the nanosecond"
    ),
    (
        "infrastructure/frameworks/langgraph/saver.py",
        'saved = self.store.chat(row.context.partition(":")[2], create=True).saved_states.at(row.version)',
    ): "a row of a saved state is of a context that is there",
    (
        "domain/chat/state/packed.py",
        "edits.pinned[ordinal] = False",
    ): "only the ordinals of what is pinned count",
    (
        "infrastructure/log/sqlite/staged_log.py",
        "with closing(sqlite3.connect(target, isolation_level=None, timeout=2)) as connection:",
    ): "who has a file open keeps it for longer than either",
    ("domain/chat/state/item_table.py", "if (ordinal is None or self._indexed < len(self.items)):"): (
        "the index is brought up to date earlier than it must be"
    ),
    (
        "infrastructure/frameworks/mcp/server.py",
        'view, given = offered(write=True)["context_view"], {"context": address, "limit": PAGE_ITEMS_MAX}',
    ): "a tool that reads is the same one among those that change",
    ("domain/formats/anthropic/receive.py", "self._part = 1"): "each message begins with going to its place",
    (
        "domain/context/folded_stream.py",
        "known = None if (self.is_ahead and self._is_unsettled) else StreamEnd(self._version, self._known_digest())",
    ): "no snapshot is found of a version that the log does not reach yet",
    ("infrastructure/frameworks/openai_agents.py", "pass  # not self._encoded = {}"): (
        "entries are encoded each time instead of being kept"
    ),
    ("infrastructure/exchange/export.py", "if (version >= self.versions.get(stream, 0)):"): (
        "a stream that is collected that far has no more events"
    ),
    (
        "infrastructure/exchange/backup.py",
        "log, rows = open_database(location, create=True, read_only=True, codec=BYTES, is_raw=True, "
        "chain_key=chain.key)",
    ): "the store is open, or was just before",
    (
        "infrastructure/exchange/backup.py",
        "log, rows = open_database(location, create=False, read_only=True, codec=BYTES, is_raw=False, "
        "chain_key=chain.key)",
    ): "a store that has keys was opened before with them, which gave the chain its own",
    ("infrastructure/frameworks/conversation.py", "if (foreign <= start):"): "no items are in no messages",
    (
        "infrastructure/cli/render.py",
        "return max(shutil.get_terminal_size((DEFAULT_WIDTH, 25)).columns, WIDTH_MIN)",
    ): "only the columns are read",
}
