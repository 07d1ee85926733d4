/** The details beside the items: of the chosen item, of the version, or of what a search found; and what can be done. */
import { contextAddress, eventLink, go, short } from "./address.js";
import { about, ask, change, fetchBodies, known } from "./api.js";
import { counted, fill, h, number, quoted, READ_ONLY, refill, roleOf, time, withCommands } from "./dom.js";
import { isThere } from "./feed.js";
import { copyText, showDialog } from "./keys.js";

/** A name and a value of a list; nothing if there is no value. */
export function pair(name, value) {
  return value === null || value === undefined || value === "" ? [] : [h("dt", {}, name), h("dd", {}, value)];
}

/** By what items leave a queue or a pool, in a word. */
const LEFT = { evict: "made room", remove: "taken out", clear: "cleared", merge: "merged", replace: "replaced" };
const button = (text, onclick, props = {}) => h("button", { type: "button", onclick, ...props }, text);

export class Details {
  constructor(screen) {
    this.screen = screen;
    this.element = h("aside", { "aria-label": "Details" });
    // The answer that the reader asked for stays while they go along the versions, as long as it is still true.
    this.opened = { key: null, element: null };
    this.shown = null;
  }

  show() {
    const { chosen, query } = this.screen;
    if (chosen !== null) return this.showItem(chosen);
    this.shown = null;
    if (query) return this.showFound(query);
    fill(this.element, h("p", { class: "dim" }, "Choose an item to see where it came from, and why it left."), this.version());
    return undefined;
  }

  version() {
    const { index, version, stream, kind } = this.screen;
    const count = (all) => number(all.filter((one) => one === version).length);
    const { types, type, first } = index.versions;
    const saves = type.flatMap((one, at) => types[one].includes(".state_saved.") && first + at <= version ? [first + at] : []);
    return [h("dl", {}, pair("version", `@${version}`), pair("came", count(index.items.v0)), pair("left", count(index.items.v1)),
      saves.length ? pair("saved", [`${counted(saves.length, "state")} of frameworks, the last `, eventLink(`${stream}@${saves.at(-1)}`, `@${saves.at(-1)}`)]) : null,
      pair("event", eventLink(`${stream}@${version}`, "as it is stored"))), ["queue", "pool"].includes(kind) ? this.holding() : null];
  }

  /** Return how many items a queue or a pool holds at this version, its limit, and how the other items left it. */
  holding() {
    const { index: { items, window }, version, stream, kind } = this.screen;
    const places = items.v0.map((_, at) => at);
    const there = places.filter((at) => isThere(items, at, version)).length + (window?.held.count ?? 0);
    const left = new Map();
    // In a window there are not all that ever left.
    if (!window) for (const at of places) if (items.v1[at] && items.v1[at] <= version) left.set(items.how[at], (left.get(items.how[at]) ?? 0) + 1);
    const rows = [...left].sort((one, other) => other[1] - one[1]).map(([how, count]) => pair(LEFT[how] ?? how, number(count)));
    const settings = h("div");
    clearTimeout(this.asking);
    // A version's settings are asked for once the reader stays there.
    this.asking = setTimeout(async () => {
      const found = await ask("view", { context: stream, version, tail: 1 }).catch(() => null);
      if (!found || !settings.isConnected) return;
      const { limit, tags } = found.settings;
      fill(settings, h("dl", {}, pair("limit", limit ? `${number(there)} of ${number(limit)} items` : "none"), pair("tags", tags.join(", "))),
        limit ? h("span", { class: "bar" }, h("span", { style: { "--part": `${Math.min(100, there / limit * 100)}%` } })) : null);
    }, 120);
    return h("section", { class: "holding" }, h("h2", {}, "What it holds"), h("dl", {}, pair(kind === "queue" ? "waiting" : "there", number(there)), rows), settings);
  }

  link(version) {
    return h("a", { href: contextAddress(this.screen.stream, version) }, `@${version}`);
  }

  async showItem(at) {
    const { screen } = this;
    const { items } = screen.index;
    const ref = items.birth[at];
    const about = h("div", {}, screen.query ? h("p", {}, button("Back to what was found", () => screen.choose(null))) : null,
      h("h2", {}, items.item[at] || ref), this.menu(at), h("dl", {},
        pair("role", roleOf(items.type[at], items.role[at])), pair("agent", items.agent[at]), pair("tokens", number(items.tokens[at])),
        pair("from", this.link(items.v0[at])), items.v1[at] ? pair("until", this.link(items.v1[at])) : pair("until", "still there"),
        pair("left by", items.how[at]), pair("because", items.reason[at]), pair("pinned", screen.isPinned(at) ? "yes" : null),
        pair("recorded", eventLink(ref))), items.v0[at] > screen.version ? h("p", {}, `It comes later, with @${items.v0[at]}.`) : null);
    const why = items.v0[at] > screen.version ? null : this.why(at);
    // Elements that look the same stay while others write, with a press, a selection, or a text that was opened as a whole.
    if (this.shown?.why !== why || this.shown.about.innerHTML !== about.innerHTML) {
      this.shown = { about, why, place: h("div"), text: null };
      fill(this.element, about, why, this.shown.place);
    }
    const { shown } = this;
    await fetchBodies([ref]);
    const body = known(ref);
    if (this.shown !== shown || !body) return;
    const text = screen.feed.textOf(body);
    if (shown.text === text) return;
    shown.text = text;
    const usage = body.usage ? Object.entries(body.usage).filter(([, one]) => one !== null) : [];
    fill(shown.place, h("dl", {}, pair("at", time(body.at)), pair("by", body.actor), pair("call", body.call_id),
      usage.map(([name, one]) => pair(name.replaceAll("_", " "), String(one)))), h("pre", { tabindex: 0 }, text),
    body.cut ? button(`All ${number(body.cut + body.body.length)} characters`, (event) => this.whole(ref, event.target)) : null);
  }

  async whole(ref, pressed) {
    const [item] = await ask("items", { ref: [ref], whole: 1 });
    fill(pressed.previousElementSibling, item.body);
    pressed.remove();
  }

  /** Return the buttons for an item. */
  menu(at) {
    const { screen } = this;
    const { items } = screen.index;
    const isChat = screen.kind === "chat";
    return h("div", { class: "buttons menu", role: "group", "aria-label": "The item" },
      button("Copy", () => this.copy(items.birth[at])), button("Go to its beginning", () => screen.seek(items.v0[at], "jump")),
      isChat ? button("Fork here", async () => { await screen.seek(items.v0[at], "jump"); screen.fork(); }) : null,
      button("Audit", () => this.audit(items.item[at] || items.birth[at])), button("JSON", () => this.json(items.birth[at])));
  }

  async copy(ref) {
    await fetchBodies([ref]);
    const item = known(ref);
    const [whole] = item.cut ? await ask("items", { ref: [ref], whole: 1 }) : [];
    copyText(whole?.body ?? this.screen.feed.textOf(item), "the text is copied");
  }

  async json(ref) {
    const found = await ask("event", { event: ref });
    const text = JSON.stringify(found, null, 2);
    showDialog(ref, [h("pre", { tabindex: 0 }, text)], [button("Copy", () => copyText(text, "the JSON is copied"))]);
  }

  async audit(item) {
    const found = await ask("audit", { context: this.screen.stream, item });
    const cell = (...children) => h("td", {}, ...children);
    showDialog(`Every change of ${item}`, [h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, found.map((one) => h("tr", {},
      h("td", { class: "nowrap" }, eventLink(one.reference, short(one.reference))), h("td", { class: "nowrap" }, time(one.recorded_at)), cell(one.actor ?? "-"),
      cell(one.attribute ? `${one.attribute}: ${JSON.stringify(one.new)}` : one.new === null ? "left" : one.old === null ? "came" : "changed"),
      cell(one.reason ?? ""))))))]);
  }

  /** The question why it is in the view, or why not, as a button and then its answer. */
  why(at) {
    const { screen } = this;
    const { items } = screen.index;
    const isHere = isThere(items, at, screen.version);
    const key = `${items.birth[at]} ${items.v0[at]} ${isHere}`;
    if (this.opened.key === key) return this.opened.element;
    const element = h("section", { class: "why" });
    this.opened = { key, element };
    fill(element, button(isHere ? "Why is it here?" : "Why is it not in the context?", async () => {
      const { whyHere, whyGone } = await import("./why.js");
      fill(element, await (isHere ? whyHere : whyGone)(screen, screen.chosen));
    }));
    return element;
  }

  async showFound(query) {
    if (this.found?.query !== query) this.found = { query, element: h("div") };
    const mine = this.found;
    refill(this.element, mine.element);
    const { found } = await import("./why.js");
    const made = await found(this.screen, query);
    if (this.found === mine) refill(mine.element, made);
  }
}

/** Ask for the name of a fork of a chat at a version, and make it. */
export function forkDialog(stream, version, carried) {
  const name = h("input", { name: "name", value: `${short(stream)}-${version}`, "aria-label": "Name of the new chat", onkeydown: (event) => { if (event.key === "Enter" && !event.repeat && !event.isComposing) run.click(); } });
  const fault = h("p", { role: "alert", class: "dim" });
  const command = h("code", {});
  const write = () => { fill(command, `refold fork ${quoted(`${short(stream)}@${version}`)} ${quoted(name.value)}`); };
  name.addEventListener("input", write);
  write();
  const mayWrite = Boolean(about().token);
  const run = button("Fork", async () => {
    try {
      const done = await change("fork", { context: stream, version, name: name.value.trim() });
      dialog.close();
      go(contextAddress(done.context));
    } catch (error) { fill(fault, error.message); }
  }, { class: "main", disabled: !mayWrite });
  const dialog = showDialog(`Fork ${short(stream)} at version ${number(version)}`, [
    h("p", {}, `The new chat begins with ${counted(carried, "item")}. This one does not change.`), name,
    h("p", { class: "dim" }, "On the command line: ", command), fault,
    mayWrite ? null : h("p", { class: "dim" }, withCommands(READ_ONLY)),
  ].filter(Boolean), [run]);
}
