/** The items of a context at one version, as a list of which only the part on the screen exists. */
import { eventOf } from "./address.js";
import { bodyAt, fetchBodies, forgetUnfinished, known } from "./api.js";
import { brief, counted, debounced, fill, h, hasModifier, roleOf } from "./dom.js";

const GUESS = 36;
const BEYOND = 400;

/** Return the places of the items that are there at a version, and of those that left with it. */
export function present(items, version) {
  const found = [];
  for (let place = 0; place < items.v0.length; place++) {
    const isGone = items.v1[place] !== 0 && items.v1[place] <= version;
    if (items.v0[place] <= version && (!isGone || items.v1[place] === version) && !(isGone && items.v0[place] === version)) found.push(place);
  }
  return found;
}

/** Whether an item is in the view at a version. */
export const isThere = (items, place, version) =>
  items.v0[place] <= version && (items.v1[place] === 0 || items.v1[place] > version);

export class Feed {
  /** `select(place)` is called when an item is chosen; `pinned(place, version)` says whether one is pinned. */
  constructor(select) {
    this.select = select;
    this.pinned = () => false;
    // The summaries that are opened, by their origins: places change when a context grows.
    this.opened = new Set();
    this.folds = new Map();
    this.edits = new Set();
    this.places = [];
    this.heights = new Map();
    this.held = null;
    this.spacer = h("div", { class: "spacer" });
    this.element = h("div", { class: "view", role: "feed", tabindex: 0, "aria-label": "Items of the context" }, this.spacer);
    this.drawn = new Map();
    this.wanted = debounced(20, () => this.fetch());
    let frame = 0;
    const moved = () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => this.draw()); };
    for (const event of ["scroll", "wheel", "touchmove"]) this.element.addEventListener(event, moved, { passive: true });
    // An item that was brought into view stays there while texts come in, until the reader scrolls.
    for (const event of ["wheel", "touchmove", "keydown", "pointerdown"]) this.element.addEventListener(event, () => { this.held = null; }, { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.observer = new ResizeObserver(moved);
    this.observer.observe(this.element);
  }

  leave() {
    this.observer.disconnect();
  }

  /** Take the index of a context: which summaries stand for which items, and which items took the place of others. */
  take({ items, versions, context, parent }) {
    this.stream = context;
    this.parent = parent;
    forgetUnfinished();
    this.folds.clear();
    this.edits.clear();
    const own = new Map(items.birth.map((birth, at) => [birth, at]));
    const summaryOf = (version) => own.get(`${context}@${version}`);
    items.how.forEach((how, at) => {
      const summary = how === "summarize" ? summaryOf(items.v1[at]) : undefined;
      if (summary !== undefined) this.folds.set(summary, [...this.folds.get(summary) ?? [], at]);
    });
    versions.type.forEach((type, at) => {
      if (/\.(call_changed|instructions_replaced)\./.test(versions.types[type])) this.edits.add(summaryOf(versions.first + at));
    });
  }

  /** The text of an item at the version that is shown; a fork has a message as far as it was written then. */
  textOf(body) {
    const { stream } = eventOf(body.ref);
    if (stream === this.stream) return bodyAt(body, this.version);
    const parent = this.parent && eventOf(this.parent);
    return bodyAt(body, stream === parent?.stream ? parent.version : Infinity);
  }

  /** Show the items that a summary stands for behind it, or hide them again. */
  open(place) {
    const ref = this.items.birth[place];
    if (!this.opened.delete(ref)) this.opened.add(ref);
    this.show(this.items, this.version, { chosen: this.chosen, still: true });
  }

  /** Show the items of an index at a version; what that version changed is brought into view. */
  show(items, version, { chosen = null, still = false } = {}) {
    const wasAtEnd = this.element.scrollTop + this.element.clientHeight >= this.spacer.clientHeight - 40;
    this.items = items;
    this.version = version;
    this.chosen = chosen;
    this.places = present(items, version);
    this.inside = new Set();
    if (this.opened.size) this.places = this.places.flatMap((place) => this.isOpen(place) ? [place, ...this.replaced(place)] : [place]);
    this.held = null;
    this.measure();
    const changed = this.places.findLastIndex((place) => items.v0[place] === version || items.v1[place] === version);
    if (!still && changed >= 0) this.bring(changed);
    else if (wasAtEnd) this.element.scrollTop = this.spacer.clientHeight;
    this.draw();
  }

  isOpen(place) {
    return this.opened.has(this.items.birth[place]);
  }

  /** The items that a summary stands for, but those that are still struck through beside it. */
  replaced(place) {
    const found = this.folds.get(place)?.filter((one) => this.items.v1[one] !== this.version) ?? [];
    for (const one of found) this.inside.add(one);
    return found;
  }

  /** The top of each item, from what was measured, and a guess for the others. */
  measure() {
    this.tops = new Float64Array(this.places.length + 1);
    for (let at = 0; at < this.places.length; at++) {
      this.tops[at + 1] = this.tops[at] + (this.heights.get(this.items.birth[this.places[at]]) ?? GUESS);
    }
    this.spacer.style.height = `${this.tops[this.places.length]}px`;
  }

  bring(at) {
    this.held = at;
    const { scrollTop, clientHeight } = this.element;
    const bottom = this.tops[at + 1];
    if (this.tops[at] < scrollTop || bottom > scrollTop + clientHeight) this.element.scrollTop = Math.max(0, bottom - clientHeight + 24);
  }

  /** Go to the next item, or the one before, and choose it; the first time to the first one on the screen. */
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !this.places.length || hasModifier(event)) return;
    event.preventDefault();
    const now = this.places.indexOf(this.chosen);
    const next = now < 0 ? this.indexAt(this.element.scrollTop) : now + by;
    const place = this.places[Math.min(this.places.length - 1, Math.max(0, next))];
    if (place !== this.chosen) this.select(place);
    this.drawn.get(place)?.focus({ preventScroll: true });
  }

  /** Scroll to the newest item. */
  end() {
    if (this.places.length) this.bring(this.places.length - 1);
    this.draw();
  }

  /** Scroll to the item of a place, if it is there. */
  find(place) {
    const at = this.places.indexOf(place);
    if (at >= 0) { this.bring(at); this.draw(); }
  }

  indexAt(top) {
    let low = 0;
    let high = this.places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= top) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  draw() {
    if (!this.items) return;
    const { scrollTop, clientHeight } = this.element;
    const first = this.indexAt(Math.max(0, scrollTop - BEYOND));
    const last = Math.min(this.places.length, this.indexAt(scrollTop + clientHeight + BEYOND) + 1);
    const keep = new Map();
    const missing = [];
    const focused = this.spacer.contains(document.activeElement) ? document.activeElement : null;
    for (let at = first; at < last; at++) {
      const place = this.places[at];
      const ref = this.items.birth[place];
      const body = known(ref);
      if (!body) missing.push(ref);
      const state = `${ref}${this.items.v0[place] === this.version ? "added" : ""}${isThere(this.items, place, this.version) ? "" : "gone"}${body ? this.textOf(body).length : -1}${this.chosen === place}${this.isOpen(place)}${this.items.v1[place]}${this.inside.has(place)}${this.pinned(place, this.version)}`;
      let made = this.drawn.get(place);
      if (!made || made.dataset.state !== state) {
        made?.remove();
        made = this.item(place, body);
        made.dataset.state = state;
      }
      made.style.top = `${this.tops[at]}px`;
      made.setAttribute("aria-posinset", at + 1);
      made.setAttribute("aria-setsize", this.places.length);
      keep.set(place, made);
    }
    for (const [place, made] of this.drawn) if (keep.get(place) !== made) made.remove();
    this.drawn = keep;
    if (!this.places.length) fill(this.spacer, h("p", { class: "empty" }, "Nothing is in the view at this version."));
    else this.spacer.querySelector(".empty")?.remove();
    // In the order of reading, which is also that of the Tab key.
    [...keep.values()].forEach((made, at) => { if (this.spacer.children[at] !== made) this.spacer.insertBefore(made, this.spacer.children[at] ?? null); });
    if (focused && !focused.isConnected) this.refocus(focused);
    if (missing.length) { this.missing = missing; this.wanted(); }
    this.settle(first, last);
  }

  /** Give the focus of an item that is not drawn any more to what is drawn in its place, or else to the list. */
  refocus(focused) {
    const item = this.drawn.get(Number(focused.closest(".item")?.dataset.place));
    const found = focused.matches("button") ? item?.querySelector("button") : item;
    (found ?? this.element).focus({ preventScroll: true });
  }

  /** Measure what is drawn, and mark what is cut off; if a guess was wrong, place the items again. */
  settle(first, last) {
    let isOff = false;
    for (let at = first; at < last; at++) {
      const made = this.drawn.get(this.places[at]);
      for (const part of made.querySelectorAll(".body, .thoughts")) part.classList.toggle("clipped", part.scrollHeight > part.clientHeight + 1);
      const height = made.offsetHeight;
      const ref = this.items.birth[this.places[at]];
      if (height && this.heights.get(ref) !== height) { this.heights.set(ref, height); isOff = true; }
    }
    if (!isOff) return;
    const above = this.tops[first];
    const { scrollTop } = this.element;
    this.measure();
    for (let at = first; at < last; at++) this.drawn.get(this.places[at]).style.top = `${this.tops[at]}px`;
    if (this.held !== null && this.held < this.places.length) this.bring(this.held);
    else if (this.tops[first] !== above) this.element.scrollTop = scrollTop + this.tops[first] - above;
  }

  async fetch() {
    try {
      if (await fetchBodies(this.missing)) this.draw();
      this.spacer.closest(".context")?.setAttribute("data-bodies", "there");
    } catch (error) {
      // A text that cannot be fetched stays a placeholder; scrolling asks again.
      this.spacer.dataset.fault = error.message;
    }
  }

  item(place, body) {
    const { items } = this;
    const role = body?.speaker ?? roleOf(items.type[place], items.role[place]);
    const isInside = this.inside.has(place);
    const isGone = !isInside && !isThere(items, place, this.version);
    const until = items.v1[place] ? `–${items.v1[place]}` : "";
    const name = ["assistant", "error"].includes(role) ? items.agent[place] : "";
    const classes = `item${items.v0[place] === this.version ? " added" : ""}${isGone ? " gone" : ""}${isInside ? " replaced" : ""}`;
    const folded = this.folds.get(place)?.length;
    const tags = [this.pinned(place, this.version) ? "pinned" : "", this.edits.has(place) ? "edited" : "", folded ? "summary" : ""].filter(Boolean);
    return h("article", { class: classes, tabindex: -1, data: { role: body?.apart ? "apart" : role, place, kind: this.stream?.split(":")[0] }, "aria-current": this.chosen === place ? "true" : undefined,
      onclick: () => this.select(place) },
      h("span", { class: "role" }, body?.apart?.replaceAll("_", " ") ?? role, name ? h("small", {}, name) : null),
      h("div", {}, body?.thoughts ? h("div", { class: "thoughts" }, body.thoughts) : null,
        h("div", { class: body ? "body" : "body waiting" }, body ? this.textOf(body) : "…"),
        body?.cut ? h("span", { class: "dim" }, `${brief(body.cut)} more characters`) : null,
        folded ? h("button", { type: "button", class: "plain", "aria-expanded": this.isOpen(place) ? "true" : "false",
          onclick: (event) => { event.stopPropagation(); this.open(place); } }, `in the place of ${counted(folded, "item")}`) : null),
      h("span", { class: "beside" }, h("span", {}, `${brief(items.tokens[place])} tok`), h("span", {}, `@${items.v0[place]}${until}`),
        tags.map((tag) => h("span", { class: "tag" }, tag)), isGone ? h("span", { class: "how" }, items.how[place] || "left") : null));
  }
}
