/** The graph of a run between the items of a chat and their details: as it was at the time of the chat's version. */
import { contextAddress, short } from "./address.js";
import { ask } from "./api.js";
import { h, merged } from "./dom.js";
import { panel } from "./graph.js";

/** Return the graph of one of the runs of a chat's session; the newest one, until another one is chosen. */
export async function graphBeside(screen, runs) {
  const made = new Beside(screen, runs);
  await made.open(runs[0]);
  return made;
}

class Beside {
  constructor(screen, runs) {
    this.screen = screen;
    this.view = h("div", { class: "view" });
    this.aside = h("div", { class: "drawer", role: "group", "aria-label": "The chosen node" });
    this.link = h("a", {}, "Open");
    const choice = h("select", { "aria-label": "Run", onchange: () => this.open(choice.value) }, runs.map((run) => h("option", { value: run }, short(run))));
    this.element = h("section", { class: "beside-graph", "aria-label": "Graph of a run of this session" }, h("div", { class: "log-bar" }, choice, this.link), this.view, this.aside);
    this.refresh = merged(200, () => this.grow());
  }

  async open(run) {
    this.graph?.leave?.();
    this.stream = run;
    this.link.href = contextAddress(run);
    this.index = await ask("context", { context: run });
    // The graph takes its place from here, as it would from the screen of the run.
    this.graph = await panel(this, "graph", this.view, {});
    this.show(this.screen.version);
  }

  address() {
    return this.screen.address();
  }

  get isLive() {
    return false;
  }

  /** Show the graph as of the time of a version of the chat. */
  show(version) {
    const { versions: { at, first } } = this.screen.index;
    const time = at[version - first] ?? 0;
    const later = this.index.versions.at.findIndex((one) => one > time);
    this.version = later < 0 ? this.index.head : this.index.versions.first + later - 1;
    this.link.href = contextAddress(this.stream, Math.max(1, this.version));
    this.graph?.show(this.version);
  }

  news({ heads }) {
    if (heads[this.stream] > this.index.head || !Object.keys(heads).length) this.refresh();
  }

  async grow() {
    this.index = await ask("context", { context: this.stream });
    await this.graph.grown();
    this.show(this.screen.version);
  }

  redraw() {
    this.graph?.fit(0.15);
  }
}
