/** A context at a version: its items, its graph, its tokens, its events, and what is known about the chosen item. */
import { contextAddress, eventOf, go, here, note, noteName, short, withQuery } from "./address.js";
import { ask, Refused } from "./api.js";
import { Details, forkDialog } from "./details.js";
import { counted, debounced, fill, h, icon, kept, merged, named, number, quoted, refill, say, span } from "./dom.js";
import { Feed, isThere } from "./feed.js";
import { keyOf } from "./keys.js";
import { Splitter } from "./splitter.js";
import { Timeline, windowOf } from "./timeline.js";
import { hasVersion, heldOf, Windows } from "./windows.js";

const MIDDLE = "refold-graph-beside";
const HOLDS_INTERVALS = ["chat", "queue", "pool"];
// As in page.css: the details have a tab of their own.
const NARROW = matchMedia("(max-width: 900px)");

export async function screen(place) {
  // Most runs are looked at as graphs, whose code comes while the versions are asked for.
  if (place.context.startsWith("run:")) import("./graph.js").catch(() => {});
  const made = new ContextScreen(await ask("context", { context: place.context, version: place.version }));
  noteName(place.context, made.stream);
  await made.move({ ...place, context: made.stream });
  return { element: made.element, title: short(made.stream), move: (next) => made.move(next), news: (news) => made.news(news),
    keys: made.keys, leave: () => made.leave(), redraw: () => made.redraw(), entered: () => made.entered(), to: (path) => made.to(path) };
}

class ContextScreen {
  constructor(index) {
    this.stream = index.context;
    this.kind = index.kind;
    this.isLive = true;
    this.version = 0;
    this.tab = null;
    this.chosen = null;
    // The words that were looked for, and the versions to which log and graph are narrowed.
    this.query = "";
    this.win = null;
    // The number of the reader's last step; an answer that an earlier step waited for is ignored.
    this.step = 0;
    this.pins = [];
    this.pinsKnown = Promise.resolve();
    this.timeline = new Timeline((version, how) => this.seek(version, how), (win) => this.narrow(win));
    this.feed = new Feed((at) => this.choose(at));
    this.details = new Details(this);
    this.windows = new Windows(index.context, (answer) => this.takeWindow(answer), (error) => this.tell(error));
    // The graph of a run of this session, between the items and the details.
    this.beside = null;
    this.middle = h("button", { type: "button", class: "middle", hidden: true, "aria-pressed": false, title: `the graph of a run of this session, at the same time (${keyOf("m")})`, onclick: () => this.toggleGraph() }, "Graph");
    // The items that are in the view, but were too many for one answer.
    this.rest = h("div", { class: "rest", hidden: true });
    this.aside = this.details.element;
    this.splitter = new Splitter(this.aside);
    this.finder = h("input", { class: "finder", "aria-label": "Find an item of this context", placeholder: "Find an item, or why it is not here", title: `find (${keyOf("s")})`,
      onkeydown: (event) => { if (event.key === "Enter") this.find(this.finder.value.trim()); } });
    // A button that is being pressed stays while the words beside it change with each new version.
    this.past = h("span", { class: "words-alone" });
    this.banner = h("div", { class: "banner", hidden: true }, this.past, h("button", { type: "button", onclick: () => this.goLive() }, "Return to the newest"));
    this.about = h("span", { class: "words-alone" });
    this.comparing = h("button", { type: "button", hidden: this.kind === "memory", onclick: () => this.compare(), title: `compare (${keyOf("d")})` });
    this.following = h("button", { type: "button", onclick: () => this.goLive(), title: `follow (${keyOf("l")})` }, "Live");
    this.head = h("div", { class: "headline" }, this.about, h("span", { style: { "margin-left": "auto", display: "flex", gap: "6px" } }, this.comparing,
      this.kind === "chat" ? h("button", { type: "button", onclick: () => this.fork(), title: `fork (${keyOf("f")})` }, icon("fork"), "Fork") : null, this.following));
    this.tabs = h("div", { class: "tabs", role: "tablist" });
    this.panes = h("div", { class: "panes", role: "tabpanel" });
    this.damage = h("div", { class: "damage", role: "alert", hidden: true });
    this.archive = h("div", { class: "archive", hidden: true });
    this.element = h("section", { class: "context" }, this.head, this.damage, this.archive, this.timeline.steps, this.timeline.element, this.banner, h("div", { class: "tab-row" }, this.tabs, this.middle, this.finder), this.rest, this.panes);
    this.take(index);
    this.keys = {
      ArrowLeft: () => this.timeline.by(-1), ArrowRight: () => this.timeline.by(1),
      "Shift+ArrowLeft": () => this.timeline.turn(-1), "Shift+ArrowRight": () => this.timeline.turn(1),
      "Alt+ArrowLeft": () => this.toChange(-1), "Alt+ArrowRight": () => this.toChange(1),
      Home: () => this.seek(this.win?.[0] ?? 1, "jump"), End: () => this.seek(this.win?.[1] ?? this.index.head, "jump"), Space: () => this.timeline.toggle(),
      l: () => this.goLive(), d: () => this.compare(), f: () => this.fork(), w: () => this.timeline.mark(), s: () => this.finder.hidden ? false : this.finder.focus(),
      "[": () => this.splitter.by(40), "]": () => this.splitter.by(-40), Escape: () => this.clear(), m: () => this.middle.hidden ? false : this.toggleGraph(),
    };
    this.noteAddress = debounced(150, () => note(this.address()));
    this.refresh = merged(100, () => this.fetchIndex());
  }

  take(index) {
    index.newest = index.versions;
    this.index = index;
    this.windows.forget();
    if (index.window) Object.assign(index, { versions: index.window.versions });
    this.timeline.take(index);
    const { archive, damage } = index;
    this.archive.hidden = !archive;
    if (archive) fill(this.archive, h("span", {}, `Its texts are in ${archive}: `, h("code", {}, `refold unarchive ${quoted(this.stream)}`), " brings them back."));
    this.damage.hidden = !damage;
    if (damage) {
      fill(this.damage, h("span", {}, damage.event ? `The versions from ${number(index.head + 1)} to ${number(damage.head)} cannot be shown: ${damage.message}. The log below has what can be read of them. `
        : `Only the versions and the log of this context are shown, as its items cannot be listed: ${damage.message}. `,
        h("a", { href: withQuery("/projections") }, "Check the whole store")));
    }
    this.feed.take(index);
    this.fetchPins().catch(() => {});
  }

  /** Take another window of this context; what is chosen stays chosen. */
  takeWindow({ items, window }) {
    const chosen = this.nameOf(this.chosen);
    Object.assign(this.index, { items, window, versions: window.versions });
    this.timeline.takeTurns(this.index);
    this.feed.take(this.index);
    this.chosen = this.placeOf(chosen);
    this.show();
  }

  /** The id or the origin of the item of a place. */
  nameOf(place) {
    return place === null ? undefined : this.index.items.item[place] || this.index.items.birth[place];
  }

  /** Ask for the runs of a chat's session; their graph is shown if the address names one, or the reader left it open. */
  async findRuns() {
    const { session, user } = this.index.opened;
    if (this.kind !== "chat" || !session) return;
    const query = here().query;
    const { contexts } = await ask("contexts", { kind: "run", session, user: user ?? undefined });
    this.runs = contexts.sort((one, other) => (one.changed_at < other.changed_at ? 1 : -1)).map((one) => `run:${one.id}`);
    this.showMiddle();
    if (this.runs.length && (query.run || kept.getItem(MIDDLE) === "1")) await this.toggleGraph(query);
  }

  showMiddle() {
    this.middle.hidden = !this.runs?.length || this.tab !== "items";
    this.showTabs();
  }

  async toggleGraph(query = {}) {
    const { Beside } = await import("./beside.js");
    this.beside?.element.remove();
    this.beside = this.beside ? null : new Beside(this, this.runs);
    // A run that the address names is not the reader's choice, which is kept.
    if (!query.run) kept.setItem(MIDDLE, this.beside ? "1" : "0");
    this.middle.setAttribute("aria-pressed", Boolean(this.beside));
    // Beside the others, which keep the focus.
    if (this.tab === "items" && this.beside) this.feed.element.after(this.beside.element);
    await this.beside?.open(query);
    this.redraw();
    note(this.address());
  }

  fillPanes() {
    fill(this.panes, this.feed.element, this.beside?.element, this.splitter.element, this.aside);
  }

  address() {
    const tab = this.tab === this.tabNames()[0] ? undefined : this.tab;
    return contextAddress(this.stream, this.isLive ? undefined : this.version,
      { tab, msg: this.nameOf(this.chosen), q: this.query, win: this.win?.join("-"), ...(this.tab === "items" ? this.beside : this.pane)?.query?.() });
  }

  /** The place of an item by its id or origin: of its stay at this version, else of its last one before, else of its first. */
  placeOf(name) {
    const { item, birth, v0 } = this.index.items;
    const places = item.flatMap((id, at) => name && (id === name || birth[at] === name) ? [at] : []);
    return places.findLast((at) => v0[at] <= this.version) ?? places[0] ?? null;
  }

  isPinned(at, version = this.version) {
    const origin = this.index.items.birth[at];
    return this.pins.some(([one, from, until]) => one === origin && from <= version && (!until || until > version));
  }

  /** Whether the rows of its items could be made: of a damaged log they cannot. */
  hasItems() {
    return this.index.damage?.has_items ?? true;
  }

  tabNames() {
    // Without the rows of its items, the items of a version are asked for one by one.
    if (!this.hasItems() && this.kind !== "run") return ["view", "log"];
    if (this.kind === "run") return ["graph", "log", "raw"];
    if (this.kind === "chat") return ["items", "tokens", "left", "replay", "log", "raw"];
    return HOLDS_INTERVALS.includes(this.kind) ? ["items", "tokens", "left", "log", "raw"] : ["view", "left", "log", "raw"];
  }

  /** Take an address of this context; returns whether it is one. */
  async move(place) {
    if (place.context !== this.stream && place.context !== short(this.stream)) return false;
    const names = this.tabNames();
    const step = ++this.step;
    let { version } = place;
    if (place.address !== undefined) version = (await ask("resolve", { context: this.stream, at: place.address })).version;
    if (step !== this.step) return true;
    if (version > this.index.head && this.index.damage && version <= this.index.damage.head) throw new Refused("DamagedError", this.index.damage.message, 500);
    if (version > this.index.head) throw new Refused("NotFoundError", `${short(this.stream)} has ${this.index.head} versions, not ${version}`, 404);
    this.isLive = version === undefined;
    this.version = version ?? this.index.head;
    if (!hasVersion(this.index, this.version)) await this.windows.go(this.version);
    if (step !== this.step) return true;
    this.chosen = this.placeOf(place.query.msg);
    // An item that is not in this window is looked for in all versions.
    const isElsewhere = this.index.window && this.chosen === null;
    const { query } = this;
    this.query = this.finder.value = place.query.q ?? (isElsewhere ? place.query.msg : undefined) ?? "";
    this.win = windowOf(place.query.win, this.index.head);
    const tab = names.includes(place.query.tab) ? place.query.tab : names[0];
    if (tab === this.tab && this.pane?.move) await this.pane.move(place.query);
    if (tab !== this.tab) await this.open(tab, place.query);
    if (tab === "items") await this.beside?.move(place.query);
    if (this.query && this.query !== query) this.turnToFound();
    this.pane?.narrow?.(this.win);
    this.show();
    if (this.chosen !== null) requestAnimationFrame(() => this.feed.find(this.chosen));
    return true;
  }

  async open(tab, query = {}) {
    this.tab = tab;
    this.pane?.leave?.();
    this.pane = null;
    const besides = ["items", "graph"].includes(tab);
    const select = (name) => async () => {
      delete this.panes.dataset.pane;
      if (name !== this.tab) { await this.open(name); this.pane?.narrow?.(this.win); }
      this.showTabs();
      this.show();
      note(this.address());
    };
    // On a narrow page the details, or the graph beside a chat, have the room of the items, and each a tab.
    const turned = (pane, name, before = () => {}) => h("button", { type: "button", role: "tab", class: "narrow", "aria-selected": this.panes.dataset.pane === pane, onclick: async () => {
      this.panes.dataset.pane = pane;
      this.showTabs();
      await before();
      this.redraw();
    } }, name);
    this.showTabs = () => {
      const focused = this.tabs.contains(document.activeElement) ? document.activeElement.textContent : null;
      fill(this.tabs, this.tabNames().map((name, at) => [h("button", { type: "button", role: "tab", onclick: select(name),
        "aria-selected": name === this.tab && !this.panes.dataset.pane }, name[0].toUpperCase() + name.slice(1)), at === 0 && besides ? turned("details", "Details") : null,
      at === 0 && tab === "items" && this.runs?.length ? turned("graph", "Graph", () => this.beside ? null : this.toggleGraph()) : null]));
      [...this.tabs.children].find((one) => one.textContent === focused)?.focus();
    };
    this.finder.hidden = tab !== "items" || !HOLDS_INTERVALS.includes(this.kind);
    this.showMiddle();
    if (tab === "items") this.fillPanes();
    else {
      const view = h("div", { class: "view" });
      fill(this.panes, view, tab === "graph" ? [this.splitter.element, this.aside] : null);
      const file = { graph: "./graph.js", log: "./log.js", replay: "./replay.js", raw: "./raw.js" }[tab] ?? "./panels.js";
      const made = await (await import(file)).panel(this, tab, view, query);
      // Meanwhile the reader may have gone on to another tab.
      if (this.panes.contains(view)) this.pane = made;
      else made?.leave?.();
    }
  }

  /** Go to a version, or to what an address means; "scrub" keeps the place in the browser's history. */
  async seek(wanted, how) {
    let version = Number(wanted);
    const step = ++this.step;
    try {
      // The server reads typed text as it reads an address.
      if (typeof wanted === "string") ({ version } = await ask("resolve", { context: this.stream, at: wanted }));
      if (step !== this.step) return;
    } catch (error) {
      fill(this.timeline.said, h("span", { role: "alert" }, error.message));
      return;
    }
    version = Math.min(this.index.head, Math.max(1, version));
    this.isLive = false;
    this.version = version;
    if (how === "jump") note(this.address(), true);
    else this.noteAddress();
    this.show();
    this.timeline.tell();
  }

  /** Go to the version with which an item came, and choose it. */
  goTo(item, version) {
    go(contextAddress(this.stream, version, { msg: item, q: this.query }));
  }

  goLive() {
    this.isLive = true;
    this.version = this.index.head;
    this.show();
    note(this.address(), true);
  }

  show() {
    Object.assign(this.timeline, { from: this.from, win: this.win });
    this.timeline.show(this.version);
    const isHere = hasVersion(this.index, this.version);
    this.element.toggleAttribute("aria-busy", !isHere);
    // Until the window is there, what was shown stays.
    if (!isHere) return void this.windows.go(this.version);
    if (this.index.window) this.windows.look(this.index.window, this.version, this.index.head);
    this.showHead();
    this.showRest();
    if (this.tab === "items") {
      this.feed.show(this.index.items, this.version, { chosen: this.chosen, still: this.chosen !== null });
      this.details.show();
    }
    this.beside?.show(this.version);
    this.pane?.show?.(this.version);
  }

  /** Say why what was asked for is not here. */
  tell(error) {
    this.rest.hidden = false;
    fill(this.rest, h("span", { role: "alert" }, error.message));
  }

  /** Say how many items of a very long view are not here, and offer them. */
  showRest() {
    const { count } = heldOf(this.index);
    this.rest.hidden = !count || this.tab !== "items";
    if (!this.rest.hidden) fill(this.rest, h("span", {}, `The first ${counted(count, "item")} of this view ${count === 1 ? "is" : "are"} not loaded.`), h("button", { type: "button", onclick: () => this.windows.load(this.version) }, "Load all"));
  }

  showHead() {
    const { items, opened, parent, head } = this.index;
    let { count, tokens } = heldOf(this.index);
    for (let at = 0; at < items.v0.length; at++) if (isThere(items, at, this.version)) { count++; tokens += items.tokens[at]; }
    const origin = parent && eventOf(parent);
    if (HOLDS_INTERVALS.includes(this.kind)) this.timeline.range.ariaValueText = `version ${this.timeline.about()}, ${counted(count, "item")}, ${counted(tokens, "token")}`;
    refill(this.about, h("h1", {}, named(short(this.stream))), h("span", { class: "tag" }, this.kind),
      HOLDS_INTERVALS.includes(this.kind) && this.hasItems() ? h("span", { class: "dim" }, `${counted(count, "item")} · ${counted(tokens, "token")}`) : null,
      opened.user ? h("span", { class: "dim" }, "user ", h("bdi", {}, opened.user)) : null,
      // Chats, runs and pools of one session lie side by side there.
      opened.session ? h("span", { class: "dim" }, "session ", h("a", { href: withQuery("/", { session: opened.session }) }, opened.session)) : null,
      origin ? h("span", { class: "dim" }, "forked from ", h("a", { href: contextAddress(origin.stream, origin.version) }, named(short(parent)))) : null);
    fill(this.comparing, this.from ? `Compare @${this.from} with @${this.version}` : this.win ? `Compare @${this.win[0]} with @${this.win[1]}` : "Compare from here");
    this.comparing.setAttribute("aria-pressed", Boolean(this.from));
    this.following.setAttribute("aria-pressed", this.isLive);
    const isPast = !this.isLive && this.version < head;
    if (!isPast) this.fresh = 0;
    this.banner.hidden = !isPast;
    if (isPast) {
      const { versions: { at, first }, newest } = this.index;
      const since = at.length ? newest.at.at(-1) - (at[this.version - first] ?? at[0]) : 0;
      fill(this.past, h("span", {}, `You see version ${number(this.version)} of ${number(head)}`, h("span", { class: "since" }, `, ${span(since)} before the newest`), "."),
        this.fresh ? h("strong", {}, `${number(this.fresh)} new`) : null);
    }
  }

  choose(at) {
    this.chosen = at === this.chosen ? null : at;
    this.noteAddress();
    this.feed.show(this.index.items, this.version, { chosen: this.chosen, still: true });
    if (this.chosen !== null) this.feed.find(this.chosen);
    this.details.show();
  }

  /** The address to which a key for a place leads from here: that of the chosen node, or the nodes of this session. */
  to(path) {
    const graph = this.kind === "run" ? this.pane : this.beside?.graph;
    if (path !== "/n" || !graph) return undefined;
    const { user, session } = this.index.opened;
    return graph.chosen ? graph.addressOf(graph.chosen) : withQuery("/n", { user, session });
  }

  /** Esc clears one thing after the other: what is chosen, what was looked for, and the window. */
  clear() {
    if (this.chosen !== null) return this.choose(null);
    if (this.pane?.clear?.() || this.beside?.graph?.clear()) return undefined;
    if (this.query) return this.find("");
    return this.win || this.timeline.begun ? this.narrow(null) : undefined;
  }

  /** Look for an item in all versions of this context, also for one that is not in the view. */
  find(query) {
    this.query = this.finder.value = query;
    this.chosen = null;
    note(this.address());
    this.turnToFound();
    this.show();
  }

  /** On a narrow page what was found has the room of the items, as the details have. */
  turnToFound() {
    if (this.tab !== "items" || !NARROW.matches) return;
    if (this.query) this.panes.dataset.pane = "details";
    else delete this.panes.dataset.pane;
    this.showTabs();
  }

  /** Narrow the log, the graph and the comparison to some versions; null is all. Back undoes it. */
  narrow(win) {
    this.win = win;
    this.timeline.begun = null;
    note(this.address(), true);
    this.pane?.narrow?.(win);
    say(win ? `versions ${win[0]} to ${win[1]}` : "all versions");
    this.show();
  }

  /** Go to the next version, or with -1 the one before, that changed what is chosen; false if nothing is. */
  toChange(direction) {
    if (this.pane?.changeOfChosen) return this.pane.changeOfChosen(direction).then((found) => this.toPlace(found, direction));
    if (this.chosen === null) return false;
    const { birth, v0, v1 } = this.index.items;
    const origin = birth[this.chosen];
    this.fetchPins().then(() => {
      const shown = birth.flatMap((one, at) => one === origin ? [v0[at], v1[at]] : []);
      this.toOne(shown.concat(this.pins.filter(([one]) => one === origin).flatMap(([, from, until]) => [from, until])), direction);
    });
    return true;
  }

  toOne(versions, direction) {
    const sorted = [...new Set(versions)].filter(Boolean).sort((one, other) => one - other);
    const found = direction > 0 ? sorted.find((one) => one > this.version) : sorted.findLast((one) => one < this.version);
    this.toPlace(found && { stream: this.stream, version: found }, direction);
  }

  /** Go to a version of this context or of another one; what is chosen stays chosen. */
  toPlace(found, direction) {
    if (!found) say(direction > 0 ? "no later change" : "no earlier change");
    else if (found.stream === this.stream) this.seek(found.version, "jump");
    else {
      go(contextAddress(found.stream, found.version, this.pane?.query?.()));
      say(short(found.stream));
    }
  }

  compare() {
    if (this.win && !this.from) {
      go(contextAddress(this.stream, this.win.join("..")));
      return;
    }
    if (this.from && this.from !== this.version) {
      const [from, until] = [this.from, this.version].sort((one, other) => one - other);
      this.from = undefined;
      go(contextAddress(this.stream, `${from}..${until}`));
      return;
    }
    this.from = this.from ? undefined : this.version;
    say(this.from ? `comparing from version ${this.from}: go to another one, and press D` : "no longer comparing");
    this.show();
  }

  fork() {
    if (this.kind !== "chat") return;
    const { items } = this.index;
    forkDialog(this.stream, this.version, items.v0.filter((_, at) => isThere(items, at, this.version)).length);
  }

  /** Ask which items are pinned, where a version pinned one since it was asked last; it ends when that is known. */
  fetchPins() {
    const { types, type, first } = this.index.newest;
    const last = type.findLastIndex((one) => /\.(items_(un)?pinned|forked)\./.test(types[one]));
    if (this.kind !== "chat" || last < 0 || first + last === this.pinnedAt) return this.pinsKnown;
    this.pinnedAt = first + last;
    this.pinsKnown = ask("pins", { context: this.stream }).then((pins) => {
      this.pins = pins;
      this.feed.pinned = (at, version) => this.isPinned(at, version);
      this.feed.draw();
    });
    return this.pinsKnown;
  }

  news(news) {
    this.beside?.news(news);
    const head = news.heads[this.stream];
    // After a longer absence the server names no contexts: ask anew.
    if (head > this.index.head || !Object.keys(news.heads).length) this.refresh();
  }

  async fetchIndex() {
    const before = this.index.head;
    const chosen = this.nameOf(this.chosen);
    this.take(await ask("context", { context: this.stream, version: this.isLive ? undefined : this.version }));
    this.chosen = this.placeOf(chosen);
    if (this.isLive) this.version = this.index.head;
    else this.fresh = Math.max(0, (this.fresh ?? 0) + this.index.head - before);
    this.version = Math.min(this.version, this.index.head);
    this.pane?.grown?.();
    this.show();
  }

  entered() {
    this.timeline.draw();
    this.findRuns().catch(() => {});
    if (this.tab === "items") this.feed.show(this.index.items, this.version, { chosen: this.chosen, still: this.chosen !== null });
    if (this.tab === "items" && this.isLive && this.chosen === null) this.feed.end();
    this.pane?.redraw?.();
  }

  redraw() {
    this.timeline.draw();
    this.beside?.redraw();
    if (this.tab === "items") this.feed.draw();
    this.pane?.redraw?.();
  }

  leave() {
    this.timeline.stop();
    this.pane?.leave?.();
    this.feed.leave();
  }
}
