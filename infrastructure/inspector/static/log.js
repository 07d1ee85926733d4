/** The events of the store, or of one context, as lines: of millions only those on the screen exist. One event in full. */
import { contextAddress, eventAddress, eventLink, go, note, short, withQuery } from "./address.js";
import { about, ask } from "./api.js";
import { cleared, colour, counted, debounced, fill, h, merged, named, number, refill, say, span, time } from "./dom.js";

const LINE = 28;
// Browsers clamp an element's height near 16 million pixels: above this a scroll position is a share of the lines.
const TALLEST = 8_000_000;
const CHUNK = 100;
// The number of lines that are shown above the line of a position.
const BEFORE = 4;
const CHUNKS_MAX = 60;
// Lines below the screen: the Tab key may be quicker than the next drawing, and would leave the list behind the last one.
const BEYOND = 12;

export async function screen(place) {
  if (place.screen === "event") return eventScreen(place);
  const { type = "", actor = "", ctx = "", q = "", group = "" } = place.query;
  const wish = { type, actor, ctx, q, group };
  const view = h("div", { class: "context" });
  const rows = new Lines(null, wish, Number(place.query.row) || 0, place.query.pos);
  const fault = h("span", { role: "alert" });
  // The address has the event that is open, which stays the same, or else the line, which a filter moves.
  const noteRow = debounced(250, () => {
    if (!rows.element.isConnected) return;
    const { position } = rows;
    note(withQuery("/log", { ...wish, pos: position, row: position || rows.isFiltered ? "" : Math.round(rows.first) || "" }));
  });
  rows.turned = noteRow;
  rows.element.addEventListener("scroll", noteRow, { passive: true });
  const grouping = groupButton(rows, (grouped) => {
    wish.group = grouped;
    note(withQuery("/log", wish));
  });
  const histogram = new Histogram((row) => rows.jump(row));
  const field = (name, label, hint) => h("label", {}, label, h("input", { name, value: wish[name], placeholder: hint, autocomplete: "off",
    onchange: (event) => {
      wish[name] = event.target.value.trim();
      note(withQuery("/log", wish));
      fault.textContent = "";
      rows.first = 0;
      rows.position = null;
      rows.restart().catch((error) => { fault.textContent = error.message; });
    } }));
  fill(view, h("div", { class: "headline", style: { "padding-bottom": "8px" } }, h("h1", {}, "Log"), rows.said, histogram.legend, fault,
    h("span", { class: "filters", style: { margin: "0 0 0 auto" } }, field("type", "Type", "chat, chat.named.v1"), field("actor", "Actor", ""), field("ctx", "Context", "support-42"), field("q", "Text", ""), grouping)),
  h("div", { class: "timeline" }, histogram.canvas, histogram.here), rows.element, rows.drawer);
  rows.drawn = (first, count) => histogram.mark(first, count);
  await rows.restart();
  if (rows.position) await rows.openAt(rows.position);
  histogram.load().catch(() => {});
  return { element: view, title: "Log", news: () => rows.grown(), leave: () => rows.leave(), entered: () => { rows.jump(rows.first); histogram.draw(); },
    redraw: () => { rows.draw(); histogram.draw(); } };
}

/** The events of one context, in its tab. */
export async function panel(context, tab, view, query) {
  view.classList.add("context");
  const rows = new Lines(context.stream, { group: query.group ?? "" }, 0);
  // Only chats have calls.
  const bar = context.kind === "chat" ? h("div", { class: "log-bar" }, groupButton(rows, () => note(context.address())), rows.said) : null;
  fill(view, bar, rows.element, rows.drawer);
  await rows.restart();
  return { query: () => ({ group: rows.wish.group }), narrow: (win) => rows.narrow(win), show: (version) => { rows.chosen = version; rows.draw(); }, grown: () => rows.grown(), leave: () => rows.leave(), redraw: () => rows.draw() };
}

/** A button that makes one line of a call, of what was decided about it, and of its output. */
function groupButton(rows, changed) {
  const button = h("button", { type: "button", "aria-pressed": Boolean(rows.wish.group), title: "a call and its output as one line", onclick: () => {
    rows.wish.group = rows.wish.group ? "" : "1";
    button.setAttribute("aria-pressed", Boolean(rows.wish.group));
    changed(rows.wish.group);
    rows.first = 0;
    rows.restart().catch((error) => say(error.message));
  } }, "Group calls");
  return button;
}

/** Lines with numbers from 0, from a row or a position on; filtered lines are a list that grows while one scrolls. */
class Lines {
  constructor(stream, wish, row, position = null) {
    Object.assign(this, { stream, wish, position, total: 0, chosen: null, chunks: new Map(), ends: new Map(), list: null, first: row, skipped: 0, last: Infinity, turned: () => {}, drawn: () => {} });
    this.spacer = h("div", { class: "spacer" });
    this.element = h("div", { class: "rows", role: "grid", tabindex: 0, "aria-label": "Events", "aria-rowcount": 0 }, this.spacer);
    this.said = h("span", { class: "dim" });
    this.drawer = h("section", { class: "drawer", hidden: true, "aria-label": "The event", tabindex: 0 });
    let frame = 0;
    const moved = () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => { this.read(); this.draw(); }); };
    this.element.addEventListener("scroll", moved, { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.drawer.addEventListener("keydown", (event) => { if (event.key === "Escape") { this.element.focus(); this.key(event); } });
    this.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.grown = merged(300, () => this.takeNewer());
    this.wanted = debounced(30, () => this.fetch());
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  leave() {
    this.observer.disconnect();
  }

  get isFiltered() {
    return Boolean(this.wish.type || this.wish.actor || this.wish.q);
  }

  async restart() {
    this.chunks.clear();
    this.ends.clear();
    this.list = this.isFiltered || this.wish.group ? [] : null;
    this.groups = new Map();
    this.next = this.stream ? this.skipped : null;
    this.isEnd = false;
    const found = await ask("log", { ...this.question(0, 1), pos: this.position ?? undefined });
    this.tally(found);
    if (this.position && !this.list) this.beginAt(found.row);
    if (this.list) await this.more();
    this.measure();
    this.jump(this.first);
    // The first lines are there when the screen is: the next key may be meant for one of them.
    this.missing = new Set(this.list ? [] : [this.first, this.first + BEFORE].map((row) => Math.floor(row / CHUNK)));
    if (this.missing.size) await this.fetch();
  }

  /** Whether lines are found by their numbers; in a log with slices a number is near its line, and lines follow others. */
  get isCounted() {
    return !about().has_slices || Boolean(this.stream || this.wish.ctx);
  }

  /** Have the event of a position among the first lines that are shown: it is the one with this number. */
  beginAt(row) {
    if (this.isCounted) { this.first = Math.max(0, row - BEFORE); return; }
    const chunk = Math.floor(row / CHUNK);
    this.first = chunk * CHUNK;
    this.ends.set(chunk - 1, { pos: this.position });
  }

  /** Open the line of a position, which is one of those that were fetched. */
  async openAt(position) {
    const lines = this.list ?? [...this.chunks.values()].flat();
    const event = lines.find((one) => one.position === position);
    if (event) await this.open(event);
  }

  /** Show some versions only, or all. */
  async narrow(win) {
    const [first, last] = win ?? [1, Infinity];
    if (first - 1 === this.skipped && last === this.last) return;
    Object.assign(this, { skipped: first - 1, last, first: 0 });
    await this.restart();
  }

  tally(found) {
    this.total = Math.max(0, Math.min(found.total, this.last) - this.skipped);
  }

  question(row, limit) {
    if (this.stream) return { context: this.stream, row: row + this.skipped, limit };
    const { type, actor, ctx, q } = this.wish;
    return { row, limit, type: type || undefined, actor: actor || undefined, context: ctx || undefined, q: q || undefined };
  }

  get count() {
    return this.list ? this.list.length : this.total;
  }

  measure() {
    this.tall = Math.min(TALLEST, this.count * LINE);
    this.spacer.style.height = `${this.tall}px`;
    this.element.setAttribute("aria-rowcount", this.count);
    this.said.textContent = this.list ? `${number(this.list.length)} ${this.isFiltered ? "fit" : "lines"}${this.isEnd ? "" : ", more below"}` : counted(this.total, "event");
  }

  get isScaled() {
    return this.count * LINE > TALLEST;
  }

  /** The first line from the scroll position. */
  read() {
    const { scrollTop, clientHeight } = this.element;
    const room = Math.max(1, this.tall - clientHeight);
    const lines = Math.max(0, this.count - Math.floor(clientHeight / LINE));
    if (this.isSet) { this.isSet = false; return; }
    this.first = this.isScaled ? Math.round(scrollTop / room * lines) : scrollTop / LINE;
  }

  jump(row) {
    const lines = Math.max(0, this.count - Math.floor(this.element.clientHeight / LINE));
    this.first = Math.min(lines, Math.max(0, row));
    const room = this.tall - this.element.clientHeight;
    const top = this.isScaled ? this.first / Math.max(1, lines) * room : this.first * LINE;
    this.isSet = Math.round(top) !== Math.round(this.element.scrollTop);
    this.element.scrollTop = top;
    this.draw();
  }

  wheel(event) {
    if (!this.isScaled) return;
    event.preventDefault();
    this.jump(this.first + Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / LINE)));
  }

  key(event) {
    const page = Math.floor(this.element.clientHeight / LINE) - 1;
    if (event.key === "Enter" && event.target === this.element) { this.open(this.at(Math.round(this.first))); return; }
    if (event.key === "Escape" && !this.drawer.hidden) { event.preventDefault(); event.stopPropagation(); this.open(null); return; }
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? this.count : by ? Math.round(this.first) + by : null;
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.jump(to);
  }

  /** Show an event in full below the lines, with what led to it; again, or null, hides it. */
  async open(event) {
    const ref = event ? `${event.stream}@${event.version}` : null;
    this.opened = ref === this.opened ? null : ref;
    this.drawer.hidden = !this.opened;
    this.position = this.opened && event.position;
    this.turned();
    this.draw();
    if (!this.opened) return;
    const refs = [event, ...event.rest ?? []].map((one) => `${one.stream}@${one.version}`);
    let found;
    try {
      found = await Promise.all(refs.map((one) => ask("event", { event: one })));
    } catch (error) {
      if (this.opened === ref) fill(this.drawer, h("p", { role: "alert" }, error.message));
      return;
    }
    if (this.opened !== ref) return;
    fill(this.drawer, found.map((one, at) => [h("p", {}, h("strong", {}, eventLink(refs[at])), " ", contextLink(one, "the context at this version")),
      one.causes.length ? h("p", {}, "It follows from ", one.causes.map((cause) => [eventLink(cause), " "])) : null, h("pre", {}, JSON.stringify(one.event, null, 2))]));
    this.drawer.scrollTop = 0;
  }

  at(row) {
    return this.list ? this.list[row] : this.chunks.get(Math.floor(row / CHUNK))?.[row % CHUNK];
  }

  draw() {
    const { clientHeight } = this.element;
    if (!clientHeight) return;
    const from = Math.floor(this.first);
    const shown = Math.ceil(clientHeight / LINE) + 2;
    // Where a position is a share of the lines, lines below the screen could make the list taller.
    const until = Math.min(this.count, from + shown + (this.isScaled ? 0 : BEYOND));
    const top = this.element.scrollTop - (this.isScaled ? 0 : this.element.scrollTop - from * LINE);
    const made = [];
    this.missing = new Set();
    for (let row = from; row < until; row++) {
      const event = this.at(row);
      if (!event && !this.list) this.missing.add(Math.floor(row / CHUNK));
      made.push(this.line(row, event, top + (row - from) * LINE));
    }
    if (!this.list && !this.wish.ctx) this.drawn(from, Math.min(shown, until - from));
    else this.drawn(0, 0);
    refill(this.spacer, made.length ? made : h("p", { class: "empty" }, this.list && !this.isEnd ? "Looking…" : this.isFiltered || this.wish.ctx ? "No event fits." : "No event was recorded yet."));
    if (this.missing.size || (this.list && !this.isEnd && until >= this.count - 20)) this.wanted();
  }

  line(row, event, top) {
    const place = { style: { top: `${top}px` }, role: "row", "aria-rowindex": row + 1 };
    if (!event) return h("div", { class: "line", ...place }, h("span", { class: "dim", role: "gridcell" }, number(row + 1)), h("span", { class: "dim", role: "gridcell" }, "…"));
    const cell = (...children) => h("span", { role: "gridcell" }, ...children);
    // Of an event that cannot be read its place may be all that is known.
    const ref = event.stream === null ? null : `${event.stream}@${event.version}`;
    const shown = event.position ?? `@${event.version}`;
    // In the log of one context its name would take the room of the version on a narrow page.
    const name = event.stream === this.stream ? `@${event.version}` : named(short(ref ?? ""));
    return h("div", { class: `line${event.damaged ? " damaged" : ""}`, ...place, "aria-selected": [event, ...event.rest ?? []].some((one) => this.chosen === one.version) || (ref && this.opened === ref) || undefined,
      onclick: (pressed) => { if (ref && !pressed.target.closest("a")) this.open(event); } },
      cell(ref ? eventLink(ref, shown) : shown), cell(event.at ? h("span", { class: "dim", title: event.at }, `${event.at.slice(5, 10)} ${event.at.slice(11, 19)}`) : "-"),
      cell(ref ? contextLink(event, name, { title: ref }) ?? ref : "-"), cell(event.actor ?? "-"),
      cell(sortOf(event)), cell(wordsOf(event)));
  }

  async fetch() {
    if (this.list) { await this.more(); this.measure(); this.draw(); return; }
    const missing = [...this.missing].filter((chunk) => !this.chunks.has(chunk));
    // Lines on the screen are of two chunks at most, which come at the same time, unless one begins where the other ends.
    if (this.isCounted) await Promise.all(missing.map((chunk) => this.fetchChunk(chunk)));
    else for (const chunk of missing.sort((one, other) => one - other)) await this.fetchChunk(chunk);
    this.draw();
  }

  async fetchChunk(chunk) {
    const begun = this.isCounted ? undefined : this.ends.get(chunk - 1);
    const found = await ask("log", begun ? { ...this.question(undefined, CHUNK), ...begun } : this.question(chunk * CHUNK, CHUNK));
    if (!this.isCounted) {
      // Later chunks began where other lines ended: they are asked for again, from the end of this one.
      if (!begun) for (const other of this.chunks.keys()) if (other > chunk) { this.chunks.delete(other); this.ends.delete(other); }
      this.ends.set(chunk, { after: found.next });
    }
    if (this.chunks.size >= CHUNKS_MAX) this.chunks.delete(this.chunks.keys().next().value);
    this.chunks.set(chunk, found.events);
  }

  async more() {
    const { list } = this;
    // The same part is asked for once, though both a scroll and a new list want it.
    if (this.isEnd || this.asked === list) return;
    this.asked = list;
    try {
      const found = await ask("log", { ...this.question(undefined, CHUNK), row: undefined, after: this.next ?? undefined, pos: this.next ? undefined : this.position ?? undefined });
      // Meanwhile the reader may have asked for something else.
      if (list !== this.list) return;
      const events = this.stream ? found.events.filter((event) => event.version <= this.last) : found.events;
      events.forEach((event) => this.add(event));
      this.isEnd = !found.scanned || found.next === this.next || events.length < found.events.length;
      this.next = found.next;
    } finally {
      if (this.asked === list) this.asked = null;
    }
  }

  /** Add an event to the list; with the calls grouped, what belongs to a call goes into its line. */
  add(event) {
    const keys = this.wish.group ? [event.call, event.call_id && `${event.stream} ${event.call_id}`].filter(Boolean) : [];
    const call = keys.map((key) => this.groups.get(key)).find(Boolean);
    if (call && !isCall(event)) { call.rest.push(event); return; }
    const line = { ...event, rest: [] };
    if (isCall(event)) for (const key of keys) this.groups.set(key, line);
    this.list.push(line);
  }

  /** Take that there is more: what is shown stays where it is. */
  async takeNewer() {
    if (this.list) {
      if (this.last === Infinity) this.isEnd = false;
      return this.fetch();
    }
    const found = await ask("log", this.question(0, 1));
    this.chunks.delete(Math.floor(Math.max(0, this.total - 1) / CHUNK));
    this.tally(found);
    this.measure();
    return this.draw();
  }
}

/** A link to the context of an event as it was then; events of the store itself, as of an erasure, are of none. */
const contextLink = ({ stream, version }, text, props = {}) => isContext(stream) ? h("a", { href: contextAddress(stream, version), ...props }, text) : null;
const isContext = (stream) => about().kinds.includes(stream.split(":")[0]);

const isCall = (event) => event.type.startsWith("chat.function_called.");
const isOutput = (event) => event.type.startsWith("chat.function_returned.");

/** The words of a line: of a group its call, and what became of it. */
function wordsOf(event) {
  const output = event.rest?.find(isOutput);
  if (!event.rest || !isCall(event)) return event.text;
  const name = `${event.text.split("(")[0]}: `;
  return [event.text, h("span", { class: "dim" }, " → "), output ? h("span", { class: output.failed ? "bad" : undefined }, output.text.startsWith(name) ? output.text.slice(name.length) : output.text)
    : h("span", { class: "dim" }, "no output yet")];
}

/** The sort of a line: of a group how long its call took. */
function sortOf(event) {
  const output = event.rest?.find(isOutput);
  if (!output) return event.type.split(".")[1] ?? event.type;
  return ["call ", h("span", { class: "dim" }, span(Date.parse(output.at) - Date.parse(event.at)))];
}

const KINDS = ["chat", "run", "queue", "pool", "window", "memory"];
const COLOURS = { chat: "accent", run: "output", queue: "call", pool: "system", window: "user" };

/** The log in buckets of the same number of events, each a column by kinds; a click goes there. */
class Histogram {
  constructor(jump) {
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.legend = h("span", { class: "legend" });
    this.here = h("i", { class: "here", hidden: true });
    this.canvas.addEventListener("click", (event) => {
      if (this.found) jump(Math.floor(event.offsetX / this.canvas.clientWidth * this.found.total));
    });
  }

  /** Mark which part of the log is on the screen; none of it while only some of its lines are shown. */
  mark(first, count) {
    this.here.hidden = !count || !this.found?.total;
    this.marked = [first, count];
    if (this.here.hidden) return;
    this.here.style.setProperty("--from", first / this.found.total);
    this.here.style.setProperty("--part", count / this.found.total);
  }

  async load() {
    this.found = await ask("histogram", { buckets: 200 });
    const there = KINDS.filter((kind) => this.found.buckets.some((one) => one.kinds[kind]));
    fill(this.legend, there.map((kind) => h("span", {}, h("i", { style: { background: `var(--${COLOURS[kind] ?? "dim"})` } }), kind)));
    this.draw();
    if (this.marked) this.mark(...this.marked);
  }

  draw() {
    if (!this.found?.buckets.length || !this.canvas.isConnected) return;
    const { drawing, width, height } = cleared(this.canvas);
    const { buckets } = this.found;
    // Columns as high as the log was quick there: events in the time that they took.
    const rates = buckets.map((one) => Object.values(one.kinds).reduce((sum, count) => sum + count, 0) / Math.max(1, new Date(one.last_at) - new Date(one.first_at)));
    const [least, most] = [Math.log(Math.min(...rates)), Math.log(Math.max(...rates))];
    const each = width / buckets.length;
    buckets.forEach((bucket, at) => {
      const high = (0.15 + 0.85 * (most > least ? (Math.log(rates[at]) - least) / (most - least) : 1)) * (height - 4);
      const sum = Object.values(bucket.kinds).reduce((all, count) => all + count, 0) || 1;
      let y = height;
      for (const kind of KINDS) {
        const part = (bucket.kinds[kind] ?? 0) / sum * high;
        drawing.fillStyle = colour(COLOURS[kind] ?? "dim");
        drawing.fillRect(at * each, y - part, Math.max(1, each - 1), part);
        y -= part;
      }
    });
  }
}

async function eventScreen(place) {
  const found = await ask("event", { event: place.event });
  const ref = `${found.stream}@${found.version}`;
  const step = (by) => async () => {
    const to = Math.max(1, found.version + by);
    const { total } = await ask("log", { context: found.stream, limit: 1 });
    if (to <= total) go(eventAddress(`${found.stream}@${to}`));
    else say("there is no later event yet");
  };
  const rows = [["position", found.position], ["recorded", time(found.recorded_at)], ["actor", found.actor], ["correlation", found.correlation_id],
    ["key", found.idempotency_key], ["digest", h("span", { class: "mono" }, found.digest)]];
  const element = h("div", { class: "sheet" },
    h("header", {}, h("h1", {}, named(short(ref))), h("span", { class: "tag" }, found.type), contextLink(found, "the context at this version"), h("a", { href: withQuery("/log", { pos: found.position }) }, "its place in the log"),
      h("span", { class: "buttons", hidden: !isContext(found.stream), style: { margin: "0 0 0 auto" } }, h("button", { type: "button", onclick: step(-1), disabled: found.version < 2 }, "Before"), h("button", { type: "button", onclick: step(1) }, "Next"))),
    h("p", {}, found.text),
    h("dl", {}, rows.flatMap(([name, value]) => value ? [h("dt", {}, name), h("dd", {}, value)] : [])),
    found.causes.length ? [h("h2", {}, "It follows from"), h("ol", {}, found.causes.map((cause) => h("li", {}, eventLink(cause))))] : null,
    h("pre", { tabindex: 0, style: { "max-height": "none" } }, JSON.stringify(found.event, null, 2)));
  return { element, title: ref, keys: isContext(found.stream) ? { ArrowLeft: step(-1), ArrowRight: step(1) } : {} };
}
