/** The differences between two versions, of one context or of two: as one list, or side by side where there is room. */
import { contextAddress, eventLink, eventOf, nodeAddress, versionLink } from "./address.js";
import { ask, bodyAt, fetchBodies, known } from "./api.js";
import { counted, fill, h, number, say, textOf } from "./dom.js";

const WIDE = matchMedia("(min-width: 1400px)");
// So many changes are drawn at once, and so many again on demand, that the page stays small.
const DRAWN = { list: 60, split: 40 };
const OPENED_MAX = 40;
const EVENTS_MAX = 60;
const SORTS = ["added", "removed", "changed", "moved"];

export async function screen(place) {
  const found = await ask("diff", { before: place.before, after: place.after });
  const made = found.nodes_added ? graphDiff(found) : new ItemDiff(found);
  const link = (side) => versionLink(side.context, side.version);
  const element = h("div", { class: "sheet diff" },
    h("header", {}, h("h1", {}, link(found.before), " → ", link(found.after)), h("span", { class: "dim" }, made.sums)),
    made.counts, between(found), made.element);
  return { element, title: "Differences", keys: { n: () => made.step?.(1), p: () => made.step?.(-1) }, redraw: () => made.redraw?.() };
}

/** The keys that go from change to change; a phone has none. */
const keysHint = () => h("span", { class: "roomy" }, " · next change N, change before P");

const sorted = (name, count) => [h("span", { class: `tag${!count ? "" : name === "added" ? " good" : name === "removed" ? " bad" : ""}` }, `${number(count)} ${name}`), " "];

/** The differences between the items of two versions. */
class ItemDiff {
  constructor(found) {
    this.lines = linesOf(found);
    this.total = this.lines.filter((line) => line.sort !== "same").length;
    this.sums = `tokens ${number(found.before.tokens)} → ${number(found.after.tokens)} (${found.tokens >= 0 ? "+" : ""}${number(found.tokens)})`;
    const same = this.lines.reduce((sum, line) => sum + (line.refs?.length ?? 0), 0);
    this.counts = h("p", {}, SORTS.map((sort) => sorted(sort, found[sort].length)),
      h("span", { class: "dim" }, `${number(same)} unchanged`, keysHint()));
    this.element = h("div", { class: "changes" });
    this.more = h("button", { type: "button", onclick: () => this.draw() }, "");
    this.redraw();
  }

  /** Draw from the beginning where the room is another one now. */
  redraw() {
    // Side by side only what has two sides.
    const isSplit = WIDE.matches && this.lines.some((line) => line.from) && this.lines.some((line) => line.to);
    if (this.isSplit === isSplit) return;
    this.isSplit = isSplit;
    Object.assign(this, { next: 0, blocks: [], at: -1 });
    fill(this.element, this.total ? null : h("p", { class: "empty" }, "Both hold the same items."));
    this.element.classList.toggle("split", this.isSplit);
    this.draw();
  }

  draw() {
    const until = this.blocks.length + DRAWN[this.isSplit ? "split" : "list"];
    this.more.remove();
    while (this.next < this.lines.length && (this.blocks.length < until || this.lines[this.next].sort === "same")) {
      const line = this.lines[this.next++];
      const block = line.sort === "same" ? unchanged(line.refs) : this.isSplit ? splitBlock(line) : listBlock(line);
      if (line.sort !== "same") this.blocks.push(block);
      this.element.append(block);
    }
    const left = this.total - this.blocks.length;
    if (left) {
      fill(this.more, `Show more: ${number(left)} of ${number(this.total)} changes are not shown yet`);
      this.element.append(this.more);
    }
  }

  step(by) {
    if (!this.total) return;
    this.blocks[this.at]?.removeAttribute("aria-current");
    this.at = stepped(this.at, by, this.total);
    while (this.at >= this.blocks.length) this.draw();
    this.blocks[this.at].setAttribute("aria-current", "true");
    this.blocks[this.at].scrollIntoView({ block: "center" });
    say(`change ${this.at + 1} of ${this.total}`);
  }
}

/** The place after a step among so many, around the ends; from -1, which is none, back leads to the last one. */
const stepped = (at, by, count) => (Math.max(at, by < 0 ? 0 : -1) + by + count) % count;

/** The lines of a diff with their items; unchanged ones that follow each other are one. */
function linesOf(found) {
  const items = new Map([...found.added, ...found.removed, ...found.moved].map((one) => [one.ref, one]));
  const changed = new Map(found.changed.map((one) => [one.to.ref, one]));
  const lines = [];
  for (const [sort, before, after] of found.lines) {
    if (sort === "same" && lines.at(-1)?.sort === "same") lines.at(-1).refs.push(after);
    else if (sort === "same") lines.push({ sort, refs: [after] });
    else if (sort === "changed") lines.push({ sort, ...changed.get(after) });
    else lines.push({ sort, from: before && (items.get(before) ?? { ref: before }), to: after && items.get(after) });
  }
  return lines;
}

/** Return the line above an item, with its change and its link; an item that moved is there twice, at its old and its new place. */
function head(line, item) {
  const said = line.sort === "moved" ? line.to ? "moved here" : "moved away" : line.sort;
  const { stream, version } = eventOf(item.ref);
  return h("div", { class: "dim" }, item.speaker ? h("strong", {}, item.speaker) : null, ` ${said} · `, versionLink(stream, version));
}

const cut = (item) => item.cut ? h("span", { class: "dim" }, `${number(item.cut)} more characters`) : null;

function listBlock(line) {
  const item = line.to ?? line.from;
  const body = line.sort === "changed" ? compared(line.from.body, line.to.body) : item.body ?? "";
  return h("article", { class: `change ${line.sort}` }, head(line, item), body ? h("div", { class: "body", tabindex: 0 }, body) : null, cut(item));
}

/** A change with the older side at the left and the newer one at the right, each with its own words marked. */
function splitBlock(line) {
  const side = (item, gone) => {
    if (!item) return h("div", { class: "side" });
    const body = line.sort === "changed" ? compared(line.from.body, line.to.body).filter((part) => part.tagName !== gone) : item.body ?? "";
    return h("div", { class: "side" }, head(line, item), body.length ? h("div", { class: "body", tabindex: 0 }, body) : null, cut(item));
  };
  return h("article", { class: `change ${line.sort}` }, side(line.from, "INS"), side(line.to, "DEL"));
}

/** Unchanged items as one line, until it is opened. */
function unchanged(refs) {
  const place = h("p", { class: "same" });
  const open = async () => {
    const shown = refs.slice(0, OPENED_MAX);
    await fetchBodies(shown);
    const blocks = shown.map((ref) => listBlock({ sort: "unchanged", to: { ...known(ref), body: bodyAt(known(ref)) } }));
    place.replaceWith(...blocks, ...refs.length > shown.length ? [unchanged(refs.slice(OPENED_MAX))] : []);
  };
  return fill(place, h("button", { type: "button", class: "plain", onclick: open }, `${number(refs.length)} unchanged`));
}

/** The events from one version to the other, asked for when they are opened. */
function between({ before, after }) {
  const [first, last] = [before.version, after.version].sort((one, other) => one - other);
  if (before.context !== after.context || first === last) return null;
  const body = h("ol", { start: first + 1 });
  const load = async () => {
    if (body.childElementCount) return;
    const found = await ask("log", { context: before.context, row: first, limit: Math.min(EVENTS_MAX, last - first) });
    fill(body, found.events.map((event) => h("li", {}, eventLink(`${event.stream}@${event.version}`, `@${event.version}`),
      ` ${event.type.split(".")[1].replaceAll("_", " ")} `, h("span", { class: "dim" }, h("bdi", {}, event.actor ?? "-"), " · ", h("bdi", {}, event.text.slice(0, 160))))));
    if (last - first > EVENTS_MAX) body.after(h("p", {}, h("a", { href: contextAddress(after.context, after.version, { tab: "log", win: `${first + 1}-${last}` }) }, `All ${number(last - first)} events`)));
  };
  return h("details", { class: "between", ontoggle: load }, h("summary", {}, `${counted(last - first, "event")} between`), body);
}

/** The differences between the graphs of two runs: nodes, their attributes, edges and pointers. */
function graphDiff(found) {
  const node = (one) => h("a", { href: nodeAddress(one.stream ?? found.after.context, one.name, one.round, one.sub) }, one.name);
  const lines = [
    ...found.nodes_removed.map((one) => ["removed", [node(one)]]), ...found.nodes_added.map((one) => ["added", [node(one)]]),
    ...found.changed.map((one) => ["changed", [h("strong", {}, `${one.node} `), `${one.attribute}: `, compared(textOf(one.old), textOf(one.new))]]),
    ...found.edges_removed.map((one) => ["removed", [`${one.source} → ${one.target} (${one.type})`]]),
    ...found.edges_added.map((one) => ["added", [`${one.source} → ${one.target} (${one.type})`]]),
    ...found.pointers_removed.map((one) => ["removed", [`pointer ${one}`]]), ...found.pointers_added.map((one) => ["added", [`pointer ${one}`]]),
  ];
  const shown = lines.slice(0, 2 * DRAWN.list).map(([sort, children]) => h("article", { class: `change ${sort}` }, children));
  let at = -1;
  const step = (by) => {
    if (!shown.length) return;
    shown[at]?.removeAttribute("aria-current");
    at = stepped(at, by, shown.length);
    shown[at].setAttribute("aria-current", "true");
    shown[at].scrollIntoView({ block: "center" });
  };
  return { step, sums: `nodes ${number(found.before.nodes)} → ${number(found.after.nodes)}`,
    counts: h("p", {}, sorted("added", found.nodes_added.length), sorted("removed", found.nodes_removed.length), sorted("changed", found.changed.length),
      h("span", { class: "dim" }, "nodes and attributes", keysHint())),
    element: h("div", { class: "changes" }, shown.length ? shown : h("p", { class: "empty" }, "Both have the same graph."),
      lines.length > shown.length ? h("p", { class: "dim" }, `The first ${number(shown.length)} of ${number(lines.length)} changes.`) : null) };
}

const WORDS_MAX = 1_500;

/** Return two texts as one, with what went and what came marked, word by word. */
export function compared(before, after) {
  const [old, now] = [before, after].map((text) => text.split(/(\s+)/));
  if (old.length > WORDS_MAX || now.length > WORDS_MAX) return [h("del", {}, before), "\n", h("ins", {}, after)];
  const rows = now.length + 1;
  const lengths = new Uint16Array((old.length + 1) * rows);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      lengths[i * rows + j] = old[i] === now[j] ? lengths[(i + 1) * rows + j + 1] + 1
        : Math.max(lengths[(i + 1) * rows + j], lengths[i * rows + j + 1]);
    }
  }
  const parts = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) { parts.push(now[j]); i++; j++; }
    else if (j < now.length && (i === old.length || lengths[i * rows + j + 1] >= lengths[(i + 1) * rows + j])) parts.push(h("ins", {}, now[j++]));
    else parts.push(h("del", {}, old[i++]));
  }
  // Texts that share few words are read one after the other, not word by word.
  const shared = parts.filter((part) => typeof part === "string" && part.trim()).length;
  const words = Math.max(old.length, now.length) / 2;
  return shared && shared >= words / 3 ? parts : [before && h("del", {}, before), before && after && "\n", after && h("ins", {}, after)].filter(Boolean);
}
