/** A context at a version: its items, its graph, its tokens, its events, and what is known about the chosen item. */
import { contextAddress, go, note, short, withQuery } from "./address.js";
import { about, ask, change, fetchBodies, known, Refused } from "./api.js";
import { debounced, fill, h, icon, number, roleOf, say, span, time } from "./dom.js";
import { Feed, isThere } from "./feed.js";
import { bind, keyOf, showDialog } from "./keys.js";
import { Timeline } from "./timeline.js";

const HOLDS_INTERVALS = ["chat", "queue", "pool"];

export async function screen(place) {
  const made = new ContextScreen(await ask("context", { context: place.context }));
  await made.move({ ...place, context: made.stream });
  return { element: made.element, title: short(made.stream), move: (next) => made.move(next), news: (news) => made.news(news),
    leave: () => made.leave(), redraw: () => made.redraw(), entered: () => made.entered() };
}

class ContextScreen {
  constructor(index) {
    this.stream = index.context;
    this.kind = index.kind;
    this.isLive = true;
    this.version = 0;
    this.tab = null;
    this.chosen = null;
    this.timeline = new Timeline((version, how) => this.seek(version, how));
    this.feed = new Feed((at) => this.choose(at));
    this.aside = h("aside", { "aria-label": "Details" });
    this.banner = h("div", { class: "banner", hidden: true });
    this.head = h("div", { class: "headline" });
    this.tabs = h("div", { class: "tabs", role: "tablist" });
    this.panes = h("div", { class: "panes", role: "tabpanel" });
    this.element = h("section", { class: "context" }, this.head, this.timeline.steps, this.timeline.element, this.banner, this.tabs, this.panes);
    this.take(index);
    this.unbind = bind({
      ArrowLeft: () => this.timeline.by(-1), ArrowRight: () => this.timeline.by(1),
      "Shift+ArrowLeft": () => this.timeline.turn(-1), "Shift+ArrowRight": () => this.timeline.turn(1),
      Home: () => this.seek(1, "jump"), End: () => this.seek(this.index.head, "jump"), Space: () => this.timeline.toggle(),
      l: () => this.goLive(), d: () => this.compare(), f: () => this.fork(), Escape: () => this.choose(null),
    });
    this.noteAddress = debounced(150, () => note(this.address()));
    this.refresh = debounced(100, () => this.fetchIndex());
  }

  take(index) {
    this.index = index;
    this.timeline.take(index);
  }

  address() {
    const tab = this.tab === this.tabNames()[0] ? undefined : this.tab;
    const id = this.chosen === null ? undefined : this.index.items.item[this.chosen];
    return contextAddress(this.stream, this.isLive ? undefined : this.version, { tab, item: id });
  }

  tabNames() {
    if (this.kind === "run") return ["graph", "log"];
    return HOLDS_INTERVALS.includes(this.kind) ? ["items", "tokens", "left", "log"] : ["view", "log"];
  }

  /** Take an address of this context; returns whether it is one. */
  async move(place) {
    if (place.context !== this.stream && place.context !== short(this.stream)) return false;
    const found = place.query.item ? this.index.items.item.indexOf(place.query.item) : -1;
    this.chosen = found >= 0 ? found : null;
    const names = this.tabNames();
    let { version } = place;
    if (place.address !== undefined) version = (await ask("resolve", { context: this.stream, at: place.address })).version;
    if (version > this.index.head) throw new Refused("NotFoundError", `${short(this.stream)} has ${this.index.head} versions, not ${version}`, 404);
    this.isLive = version === undefined;
    this.version = version ?? this.index.head;
    const tab = names.includes(place.query.tab) ? place.query.tab : names[0];
    if (tab !== this.tab) await this.open(tab);
    this.show();
    if (this.chosen !== null) requestAnimationFrame(() => this.feed.find(this.chosen));
    return true;
  }

  async open(tab) {
    this.tab = tab;
    this.pane?.leave?.();
    this.pane = null;
    fill(this.tabs, this.tabNames().map((name) => h("button", { type: "button", role: "tab", "aria-selected": name === tab,
      onclick: async () => { await this.open(name); this.show(); note(this.address()); } }, name[0].toUpperCase() + name.slice(1))));
    if (tab === "items") fill(this.panes, this.feed.element, this.aside);
    else {
      const view = h("div", { class: "view" });
      fill(this.panes, view, tab === "graph" ? this.aside : null);
      const { panel } = await import(tab === "graph" ? "./graph.js" : tab === "log" ? "./log.js" : "./panels.js");
      this.pane = await panel(this, tab, view);
    }
  }

  /** Go to a version, or to what an address means; "scrub" keeps the place in the browser's history. */
  async seek(wanted, how) {
    let version = Number(wanted);
    try {
      // What was typed is read by the server, as an address is.
      if (typeof wanted === "string") ({ version } = await ask("resolve", { context: this.stream, at: wanted }));
    } catch (error) {
      fill(this.timeline.said, h("span", { role: "alert" }, error.message));
      return;
    }
    version = Math.min(this.index.head, Math.max(1, version));
    this.isLive = false;
    this.version = version;
    if (how === "jump") history.pushState(null, "", this.address());
    else this.noteAddress();
    this.show();
  }

  goLive() {
    this.isLive = true;
    this.version = this.index.head;
    this.show();
    history.pushState(null, "", this.address());
  }

  show() {
    this.timeline.from = this.from;
    this.timeline.show(this.version);
    this.showHead();
    if (this.tab === "items") {
      this.feed.show(this.index.items, this.version, { chosen: this.chosen, still: this.chosen !== null });
      this.showDetails();
    }
    this.pane?.show?.(this.version);
  }

  showHead() {
    const { items, opened, parent, head } = this.index;
    let count = 0;
    let tokens = 0;
    for (let at = 0; at < items.v0.length; at++) if (isThere(items, at, this.version)) { count++; tokens += items.tokens[at]; }
    const origin = /^(.*)@(\d+)$/.exec(parent ?? "");
    fill(this.head, h("h1", {}, short(this.stream)), h("span", { class: "tag" }, this.kind),
      HOLDS_INTERVALS.includes(this.kind) ? h("span", { class: "dim" }, `${number(count)} items · ${number(tokens)} tokens`) : null,
      opened.user ? h("span", { class: "dim" }, `user ${opened.user}`) : null,
      origin ? h("span", { class: "dim" }, "forked from ", h("a", { href: contextAddress(origin[1], Number(origin[2])) }, short(parent))) : null,
      h("span", { style: { "margin-left": "auto", display: "flex", gap: "6px" } },
        this.kind === "chat" ? h("button", { type: "button", onclick: () => this.compare(), "aria-pressed": Boolean(this.from), title: `compare (${keyOf("d")})` },
          this.from ? `Compare @${this.from} with @${this.version}` : "Compare from here") : null,
        this.kind === "chat" ? h("button", { type: "button", onclick: () => this.fork(), title: `fork (${keyOf("f")})` }, icon("fork"), "Fork") : null,
        h("button", { type: "button", onclick: () => this.goLive(), "aria-pressed": this.isLive, title: `follow (${keyOf("l")})` }, "Live")));
    const isPast = !this.isLive && this.version < head;
    this.banner.hidden = !isPast;
    if (isPast) {
      const { at, first } = this.index.versions;
      const since = at.length ? at.at(-1) - (at[this.version - first] ?? at[0]) : 0;
      fill(this.banner, `You see version ${number(this.version)} of ${number(head)}, ${span(since)} before the newest.`,
        this.fresh ? h("strong", {}, `${number(this.fresh)} new`) : null,
        h("button", { type: "button", onclick: () => this.goLive() }, "Return to the newest"));
    }
  }

  choose(at) {
    this.chosen = at === this.chosen ? null : at;
    note(this.address());
    this.feed.show(this.index.items, this.version, { chosen: this.chosen, still: true });
    this.showDetails();
  }

  async showDetails() {
    const at = this.chosen;
    if (at === null) {
      fill(this.aside, h("p", { class: "dim" }, "Choose an item to see where it came from, and why it left."), this.versionDetails());
      return;
    }
    const { items } = this.index;
    const ref = items.birth[at];
    const gone = items.v1[at] && items.v1[at] <= this.version;
    fill(this.aside, h("h2", {}, items.item[at] || ref), h("dl", {},
      pair("sort", roleOf(items.type[at], items.role[at])), pair("agent", items.agent[at]), pair("tokens", number(items.tokens[at])),
      pair("from", this.versionLink(items.v0[at])),
      items.v1[at] ? pair("until", this.versionLink(items.v1[at])) : pair("until", "still there"),
      items.v1[at] ? pair("left by", items.how[at]) : null, items.reason[at] ? pair("because", items.reason[at]) : null,
      pair("recorded", h("a", { href: withQuery(`/e/${encodeURIComponent(ref)}`) }, ref))));
    const turn = h("p", { class: "buttons" },
      h("button", { type: "button", onclick: () => this.seek(items.v0[at], "jump") }, "Go to its beginning"),
      gone ? h("button", { type: "button", onclick: () => this.why(at) }, "Why is it gone?") : null,
      this.kind === "chat" ? h("button", { type: "button", onclick: () => { this.seek(items.v0[at], "jump"); this.fork(); } }, "Fork here") : null);
    this.aside.append(turn);
    await fetchBodies([ref]);
    const body = known(ref);
    if (this.chosen !== at || !body) return;
    const usage = body.usage ? Object.entries(body.usage).filter(([, one]) => one !== null) : [];
    this.aside.append(h("dl", {}, pair("at", time(body.at)), pair("by", body.actor), pair("call", body.call_id),
      usage.map(([name, one]) => pair(name.replaceAll("_", " "), String(one)))), h("pre", { tabindex: 0 }, body.body),
    body.cut ? h("button", { type: "button", onclick: (event) => this.whole(ref, event.target) }, `All ${number(body.cut + body.body.length)} characters`) : null);
  }

  async whole(ref, button) {
    const [item] = await ask("items", { ref: [ref], whole: 1 });
    fill(button.previousElementSibling, item.body);
    button.remove();
  }

  async why(at) {
    const found = await ask("why", { context: this.stream, item: this.index.items.item[at] });
    const chain = (found.causes ?? []).map((cause) => h("li", {}, h("a", { href: withQuery(`/e/${encodeURIComponent(cause)}`) }, cause)));
    showDialog("Why it is gone", [h("dl", {}, pair("how", found.how), pair("because", found.reason), pair("by", found.actor),
      pair("when", found.recorded_at && time(found.recorded_at)), pair("event", found.reference)),
    chain.length ? [h("p", {}, "It follows from"), h("ol", {}, chain)] : null].flat());
  }

  versionDetails() {
    const { items } = this.index;
    const came = items.v0.filter((one) => one === this.version).length;
    const left = items.v1.filter((one) => one === this.version).length;
    return h("dl", {}, pair("version", `@${this.version}`), pair("came", number(came)), pair("left", number(left)),
      pair("event", h("a", { href: withQuery(`/e/${encodeURIComponent(`${this.stream}@${this.version}`)}`) }, "as it is stored")));
  }

  versionLink(version) {
    return h("a", { href: contextAddress(this.stream, version) }, `@${version}`);
  }

  compare() {
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
    const name = h("input", { name: "name", value: `${short(this.stream)}-${this.version}`, "aria-label": "Name of the new chat" });
    const fault = h("p", { role: "alert", class: "dim" });
    const command = h("code", {});
    const write = () => { fill(command, `refold fork '${short(this.stream)}@${this.version}' '${name.value}'`); };
    name.addEventListener("input", write);
    write();
    const mayWrite = Boolean(about().token);
    const run = h("button", { type: "button", class: "main", disabled: !mayWrite, onclick: async () => {
      try {
        const done = await change("fork", { context: this.stream, version: this.version, name: name.value.trim() });
        dialog.close();
        go(contextAddress(done.context));
      } catch (error) { fill(fault, error.message); }
    } }, "Fork");
    const carried = this.index.items.v0.filter((_, at) => isThere(this.index.items, at, this.version)).length;
    const dialog = showDialog(`Fork ${short(this.stream)} at version ${number(this.version)}`, [
      h("p", {}, `The new chat begins with ${number(carried)} items. This one does not change.`), name,
      h("p", { class: "dim" }, "On the command line: ", command), fault,
      mayWrite ? null : h("p", { class: "dim" }, "This page is read-only: start it with `refold ui --write`."),
    ].filter(Boolean), [run]);
  }

  news(news) {
    const head = news.heads[this.stream];
    // After a longer absence the server names no contexts: ask anew.
    if (head > this.index.head || !Object.keys(news.heads).length) this.refresh();
  }

  async fetchIndex() {
    const before = this.index.head;
    this.take(await ask("context", { context: this.stream }));
    if (this.isLive) { this.version = this.index.head; this.fresh = 0; }
    else this.fresh = (this.fresh ?? 0) + this.index.head - before;
    this.pane?.grown?.();
    this.show();
  }

  entered() {
    this.timeline.draw();
    if (this.tab === "items") this.feed.show(this.index.items, this.version, { chosen: this.chosen, still: this.chosen !== null });
    if (this.tab === "items" && this.isLive && this.chosen === null) this.feed.end();
    this.pane?.redraw?.();
  }

  redraw() {
    this.timeline.draw();
    if (this.tab === "items") this.feed.draw();
    this.pane?.redraw?.();
  }

  leave() {
    this.timeline.stop();
    this.unbind();
    this.pane?.leave?.();
    this.feed.leave();
  }
}

/** A name and a value of a list; nothing if there is no value. */
export function pair(name, value) {
  return value === null || value === undefined || value === "" ? [] : [h("dt", {}, name), h("dd", {}, value)];
}


