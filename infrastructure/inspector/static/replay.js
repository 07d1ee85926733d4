/** A chat under another policy: the prompts of each call as they were and as they would have been, side by side. */
import { note } from "./address.js";
import { ask, bodyAt, fetchBodies, known } from "./api.js";
import { counted, fill, h, number, scrolled, tableHead } from "./dom.js";

const CALLS_MAX = 60;
const LINES_MAX = 40;
const SORTS = [["items", "the newest items"], ["tokens", "the newest tokens"], ["all", "everything"]];
const USUAL = { items: 20, tokens: 4_000 };

export async function panel(context, tab, view, query) {
  const replay = new Replay(context, view);
  await replay.move(query);
  return replay;
}

class Replay {
  constructor(context, view) {
    Object.assign(this, { context, view, policy: "", call: 0 });
    this.kept = h("select", { "aria-label": "What is kept", onchange: () => { this.count.value = USUAL[this.kept.value] ?? ""; this.choose(); } }, SORTS.map(([value, name]) => h("option", { value }, name)));
    this.count = h("input", { type: "number", min: 1, "aria-label": "How many", onchange: () => this.choose() });
    this.sums = h("p", { class: "dim", role: "status" });
    this.calls = h("div");
    this.sides = h("div");
    fill(view, h("div", { class: "sheet" },
      h("div", { class: "filters" }, h("label", {}, "Before each call it kept", this.kept), h("label", {}, "How many", this.count)),
      this.sums, this.sides, this.calls));
  }

  query() {
    return { policy: this.policy, call: this.call || undefined };
  }

  /** Take the policy and the call of an address. */
  async move(query) {
    const policy = query.policy ?? `items:${USUAL.items}`;
    const [kept, count] = policy.split(":");
    this.kept.value = kept;
    this.count.value = count ?? "";
    await this.load(policy, Number(query.call) || 0);
  }

  choose() {
    const isAll = this.kept.value === "all";
    return this.load(isAll ? "all" : `${this.kept.value}:${this.count.value}`, this.call).then(() => note(this.context.address()));
  }

  async load(policy, call) {
    this.count.disabled = policy === "all";
    try {
      if (policy !== this.policy) this.found = await ask("replay", { context: this.context.stream, policy });
      Object.assign(this, { policy, call });
      this.list();
      if (call) await this.compare(call);
      else fill(this.sides);
    } catch (error) { fill(this.sums, h("span", { role: "alert" }, error.message)); }
  }

  list() {
    const { calls, sums } = this.found;
    if (!calls.length) return fill(this.sums, "It holds no answer of a model: there is nothing to compare.");
    const shown = calls.slice(-CALLS_MAX);
    const both = (then, now) => `${number(then)} → ${number(now)}`;
    fill(this.sums, `${counted(sums.calls, "call")} · tokens of all prompts ${both(sums.tokens_then, sums.tokens_now)} · of them a cache could hold ${both(sums.cached_then, sums.cached_now)} · all estimated`,
      calls.length > shown.length ? ` · the last ${number(shown.length)} calls are listed` : "");
    const row = (one) => h("tr", { "aria-selected": one.version === this.call }, h("td", {}, h("span", {}, h("button", { type: "button", onclick: async () => { await this.load(this.policy, one.version); note(this.context.address()); this.view.scrollTop = 0; } }, `@${one.version}`))),
      [one.tokens_then, one.tokens_now].map((value) => h("td", { class: "number" }, number(value))));
    return fill(this.calls, scrolled(tableHead(["Call", ["Tokens then", "number"], ["Under the policy", "number"]]), h("tbody", {}, shown.map(row))));
  }

  /** Show both prompts of a call; the first item that differs is marked, for a cache holds only what is before it. */
  async compare(call) {
    const found = await ask("replay", { context: this.context.stream, policy: this.policy, seen: call });
    const { then, now } = found;
    const same = then.findIndex((ref, at) => ref !== now[at]);
    const first = same < 0 ? then.length === now.length ? -1 : then.length : same;
    // The lines begin a little before the first difference.
    const from = Math.max(0, first - 3);
    await fetchBodies([...new Set([...then.slice(from, from + LINES_MAX), ...now.slice(from, from + LINES_MAX)])]);
    const side = (name, refs, others) => h("section", { class: "side", "aria-label": name },
      h("h2", {}, `${name}: ${counted(refs.length, "item")}`), from ? h("p", { class: "dim" }, `${counted(from, "equal item")} before`) : null,
      refs.slice(from, from + LINES_MAX).map((ref, at) => h("article", { class: `change${others.has(ref) ? "" : name === "As it was" ? " removed" : " added"}${from + at === first ? " first" : ""}` },
        h("strong", {}, known(ref)?.speaker ?? ""), from + at === first ? h("span", { class: "tag warn" }, "first difference") : null, h("div", { class: "body" }, known(ref) ? bodyAt(known(ref)).slice(0, 300) : ""))),
      refs.length > from + LINES_MAX ? h("p", { class: "dim" }, `${number(refs.length - from - LINES_MAX)} more`) : null);
    fill(this.sides, h("h2", {}, `The prompt of the call @${call}`), first < 0 ? h("p", {}, "Both prompts are the same.") : null,
      h("div", { class: "sides" }, side("As it was", then, new Set(now)), side("Under the policy", now, new Set(then))));
  }
}
