/** The graph of a run between the items of a chat and their details: as it was at the time of the chat's version. */
import { contextAddress, note, short } from "./address.js";
import { ask } from "./api.js";
import { fill, h, merged } from "./dom.js";
import { panel } from "./graph.js";

/** The graph of one of the runs of a chat's session, which `open` shows, the newest one first. */
export class Beside {
  constructor(screen, runs) {
    this.screen = screen;
    this.view = h("div", { class: "view" });
    this.aside = h("div", { class: "drawer", role: "group", "aria-label": "The chosen node" });
    this.link = h("a", {}, "Open");
    this.runs = runs;
    this.choice = h("select", { "aria-label": "Run", onchange: () => this.open({ run: this.choice.value }).then(() => note(this.address())) }, runs.map((run) => h("option", { value: run }, short(run))));
    this.element = h("section", { class: "beside-graph", "aria-label": "Graph of a run of this session" }, h("div", { class: "log-bar" }, this.choice, this.link), this.view, this.aside);
    this.refresh = merged(200, () => this.grow());
  }

  /** Show the run, the node and the order that an address names. */
  async open({ run, ...query }) {
    this.graph = null;
    const stream = this.stream = this.choice.value = this.runs.includes(run) ? run : this.runs[0];
    try {
      const index = await ask("context", { context: stream });
      // Meanwhile the reader may have chosen another one.
      if (stream !== this.stream) return;
      this.index = index;
      // The graph takes its place from here, as it would from the screen of the run.
      const graph = await panel(this, "graph", this.view, query);
      if (!graph) return;
      this.graph = graph;
      this.show(this.screen.version);
    } catch (error) {
      fill(this.view, h("p", { role: "alert", class: "empty" }, error.message));
    }
  }

  /** Take the part of an address that is this graph's. */
  move(query) {
    if (query.run && query.run !== this.stream) return this.open(query);
    return this.graph?.move(query);
  }

  /** The part of the address that is this graph's. */
  query() {
    return { run: this.stream, ...this.graph?.query() };
  }

  address() {
    return this.screen.address();
  }

  get isLive() {
    return false;
  }

  /** Show the graph as of the time of a version of the chat. */
  show(version) {
    if (!this.graph) return;
    const { versions: { at, first } } = this.screen.index;
    const time = at[version - first] ?? 0;
    const later = this.index.versions.at.findIndex((one) => one > time);
    this.version = later < 0 ? this.index.head : this.index.versions.first + later - 1;
    this.link.href = contextAddress(this.stream, Math.max(1, this.version));
    this.graph.show(this.version);
  }

  news({ heads }) {
    if (this.graph && (heads[this.stream] > this.index.head || !Object.keys(heads).length)) this.refresh();
  }

  async grow() {
    this.index = await ask("context", { context: this.stream });
    await this.graph?.grown();
    this.show(this.screen.version);
  }

  redraw() {
    this.graph?.fit(0.15);
  }
}
