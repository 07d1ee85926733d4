/** The graph of a run on a canvas, with a table of the same nodes beside it; what is later than the version is dimmed. */
import { go, nodeAddress, note } from "./address.js";
import { ask } from "./api.js";
import { cleared, colour, counted, fill, h, hasModifier, number } from "./dom.js";
import { folded, relatedTo } from "./fold.js";

// The steps from column to column are longer where there is room, so that labels fit.
const [STEP_X, STEP_X_MAX] = [46, 130];
// So are those from row to row, where all of a large graph is drawn small.
const [STEP_Y, RISE_MAX] = [30, 36];
// A graph is shown from its beginning, at a scale at which nodes can be told from each other; all of it, at any scale.
const [READABLE, FARTHEST] = [0.15, 0.002];
const COLOURS = { Query: "user", State: "assistant", Action: "call", Table: "output", Data: "output" };
const TABLE_ROWS = 52;
// More characters have no room in a line; the width of a long text takes a browser milliseconds, for each node and picture.
const CAPTION_MAX = 300;
const ORDERS = { version: (one, other) => one.version - other.version, type: (one, other) => one.type.localeCompare(other.type) || one.version - other.version,
  name: (one, other) => one.name.localeCompare(other.name, "en", { numeric: true }) };
const ROW = 30;

export async function panel(context, tab, view, query) {
  const { stream } = context;
  const found = await askGraph(context);
  // Meanwhile the reader may have chosen another run, which has the view.
  if (context.stream !== stream) return null;
  const graph = new Graph(context, view, found);
  graph.attach();
  graph.move(query);
  return graph;
}

// All attributes of all nodes may be many texts: those of the chosen node are asked for with their history.
const CAPTIONS = "query,action,state,description,success";
const askGraph = (context) => ask("graph", { context: context.stream, attributes: CAPTIONS });

class Graph {
  constructor(context, view, found) {
    Object.assign(this, { context, view, chosen: null, scale: 1, x: 30, y: 30, version: Infinity, step: STEP_X, rise: STEP_Y, opened: new Set(), isFolded: true, isByLog: false, win: null });
    this.take(found);
    this.canvas = h("canvas", { class: "graph", tabindex: 0, role: "application",
      "aria-label": "Graph of the run: arrow keys go along edges, plus and minus zoom, 0 shows all. The table has the same nodes." });
    this.minimap = h("canvas", { style: { position: "absolute", right: "12px", bottom: "12px", width: "180px", height: "90px", border: "1px solid var(--line)", background: "var(--ground)", "border-radius": "6px" }, "aria-hidden": "true" });
    this.said = h("span", { class: "dim", role: "status" });
    this.table = h("div", { class: "rows", hidden: true, role: "grid", "aria-label": "Nodes: up and down choose one", tabindex: 0, style: { position: "absolute", inset: "44px 0 0 0" } });
    this.table.addEventListener("scroll", () => this.drawTable(), { passive: true });
    this.table.addEventListener("keydown", (event) => this.keyOfTable(event));
    this.switch = h("button", { type: "button", "aria-pressed": false, onclick: () => this.toggleTable() }, "Table");
    this.sorting = h("select", { "aria-label": "Order of the table", hidden: true, style: { width: "auto" }, onchange: () => { this.table.scrollTop = 0; this.drawTable(); } },
      Object.keys(ORDERS).map((name) => h("option", { value: name }, `by ${name}`)));
    this.folds = h("button", { type: "button", "aria-pressed": true, title: "straight runs and fans as one sign", onclick: () => this.fold(!this.isFolded) }, "Fold");
    this.axis = h("button", { type: "button", "aria-pressed": false, title: "a column for each node, in the order of the log", onclick: () => { this.order(!this.isByLog); note(this.context.address()); } }, "Log order");
    this.bar = h("div", { class: "graph-bar", style: { position: "absolute", left: "12px", right: "12px", top: "8px", display: "flex", gap: "8px", "align-items": "center", "z-index": "1", overflow: "auto hidden", "white-space": "nowrap" } },
      this.switch, this.sorting, this.folds, this.axis, h("button", { type: "button", onclick: () => this.fit(), title: "show all (0)" }, "Fit"),
      h("button", { type: "button", onclick: () => this.zoom(1.3), "aria-label": "Nearer" }, "+"), h("button", { type: "button", onclick: () => this.zoom(1 / 1.3), "aria-label": "Farther" }, "−"), this.said);
  }

  take(found) {
    this.found = found;
    // The nodes come in the order in which they were registered: an order of its own, as the columns by depth are.
    const nodes = found.nodes.filter((node) => this.isWithin(node)).map((node, at) => this.isByLog ? { ...node, column: at } : node);
    this.all = nodes;
    const byName = new Map(nodes.map((node) => [node.name, node]));
    this.links = found.edges.map(([source, target, type, back]) => ({ source: byName.get(source), target: byName.get(target), type, back }))
      .filter((edge) => edge.source && edge.target);
    this.arrange();
  }

  /** Whether a node is in the window of versions; those of other agents have versions of their own, and stay. */
  isWithin(node) {
    return !this.win || node.stream !== this.context.stream || (node.version >= this.win[0] && node.version <= this.win[1]);
  }

  narrow(win) {
    if (String(win) === String(this.win)) return;
    this.win = win;
    this.again();
  }

  order(isByLog) {
    this.isByLog = isByLog;
    this.axis.setAttribute("aria-pressed", isByLog);
    this.again();
  }

  again() {
    this.take(this.found);
    this.drawTable();
    this.details();
    requestAnimationFrame(() => this.fit(READABLE));
  }

  /** The part of the address that is this graph's. */
  query() {
    return { node: this.chosen?.name, x: this.isByLog ? "log" : undefined };
  }

  /** Take the part of an address that is this graph's. */
  move({ node, x }) {
    if ((x === "log") !== this.isByLog) this.order(x === "log");
    const wanted = node ? this.all.find((one) => one.name === node) : null;
    if ((wanted?.name ?? null) === (this.chosen?.name ?? null)) return;
    if (wanted) requestAnimationFrame(() => this.find(wanted));
    else this.choose(null);
  }

  clear() {
    if (!this.chosen) return false;
    this.choose(null);
    return true;
  }

  /** The next change of the chosen node, or with -1 the one before, in whichever run it was; undefined if there is none. */
  async changeOfChosen(direction) {
    if (!this.chosen) return undefined;
    const { changes, laterThan } = await this.historyOfChosen();
    const { version, context: { stream, index } } = this;
    const isLater = laterThan(stream, version, index.versions.at[version - index.versions.first] ?? Infinity);
    const isHere = (one) => one.stream === stream && one.version === version;
    return direction > 0 ? changes.find((one) => isLater(one)) : changes.findLast((one) => !isLater(one) && !isHere(one));
  }

  /** Return the changes of the chosen node, which are asked for once, with the functions of node.js for them. */
  historyOfChosen() {
    const { name, round, sub } = this.chosen;
    if (this.history?.name === name) return this.history.found;
    const [user, session] = /^run:([^/]*)\/([^/]*)/.exec(this.context.stream).slice(1).map(decodeURIComponent);
    const found = import("./node.js").then(async (node) => ({ ...node, changes: await node.historyOf({ name, user, session, round, sub }) }));
    this.history = { name, found };
    return found;
  }

  /** Show the attributes that the chosen node had at this version. */
  async showValues() {
    const node = this.chosen;
    const { laterThan, valuesAfter, changes } = await this.historyOfChosen();
    if (node !== this.chosen) return;
    const { version, context: { stream, index } } = this;
    const isLater = laterThan(stream, version, index.versions.at[version - index.versions.first] ?? Infinity);
    const isHere = (name) => changes.some((one) => one.attribute === name && one.stream === stream && one.version === version);
    const values = valuesAfter(changes.filter((one) => !isLater(one))).filter(([, value]) => value !== "" && !(Array.isArray(value) && !value.length));
    fill(this.values, this.isLater(node) ? h("p", { class: "dim" }, `It comes later, with @${node.version}.`) : values.map(([name, value]) => [
      h("div", { class: "dim" }, name, isHere(name) ? [" ", h("span", { class: "tag good" }, "set here")] : null),
      h("pre", { tabindex: 0 }, typeof value === "string" ? value : JSON.stringify(value, null, 1))]));
  }

  /** Fold what is not opened, and find the nodes and edges of each column. */
  arrange() {
    const opened = this.isFolded ? this.opened : { has: () => true };
    Object.assign(this, folded(this.all, this.links, opened));
    [this.columns, this.rows] = ["column", "row"].map((axis) => this.nodes.reduce((most, node) => Math.max(most, node[axis] + 1), 0));
    this.chosen = this.chosen && this.byName.get(this.signOf(this.chosen.name)?.name ?? this.chosen.name);
    this.related = this.chosen && relatedTo(this.chosen, this.edges);
    // Edges by the column in which they begin, so that only those near the screen are drawn.
    this.inColumn = new Map();
    this.longest = 1;
    for (const edge of this.edges) {
      const first = Math.min(edge.source.column, edge.target.column);
      this.longest = Math.max(this.longest, Math.abs(edge.source.column - edge.target.column));
      if (!this.inColumn.has(first)) this.inColumn.set(first, []);
      this.inColumn.get(first).push(edge);
    }
    this.nodesIn = new Map();
    for (const node of this.nodes) {
      if (!this.nodesIn.has(node.column)) this.nodesIn.set(node.column, []);
      this.nodesIn.get(node.column).push(node);
    }
  }

  attach() {
    fill(this.view, this.bar, this.canvas, this.minimap, this.table);
    let drag = null;
    this.canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, moved: false }; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      this.x += event.clientX - drag.x;
      this.y += event.clientY - drag.y;
      drag = { x: event.clientX, y: event.clientY, moved: drag.moved || Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 1 };
      this.soon();
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) this.choose(this.nodeAt(event.offsetX, event.offsetY));
      drag = null;
    });
    this.canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.offsetX, event.offsetY); }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.minimap.addEventListener("pointerdown", (event) => {
      this.x = this.canvas.clientWidth / 2 - event.offsetX / 180 * this.columns * this.step * this.scale;
      this.y = this.canvas.clientHeight / 2 - event.offsetY / 90 * this.rows * this.rise * this.scale;
      this.soon();
    });
    requestAnimationFrame(() => this.fit(READABLE));
  }

  key(event) {
    const isArrow = event.key.startsWith("Arrow");
    if (isArrow && !this.chosen && this.nodes.length) { event.preventDefault(); event.stopPropagation(); return this.choose(this.nodes[0], true); }
    const node = this.chosen;
    const near = { ArrowLeft: () => this.edges.find((edge) => edge.target === node)?.source, ArrowRight: () => this.edges.find((edge) => edge.source === node)?.target,
      ArrowUp: () => this.sibling(node, -1), ArrowDown: () => this.sibling(node, 1) }[event.key];
    if (near && node) this.choose(near() ?? node, true);
    else if (event.key === "+") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && node?.group) this.open(node);
    else if (event.key === "Enter" && this.chosen) go(this.addressOf(this.chosen));
    else return undefined;
    event.preventDefault();
    event.stopPropagation();
    return undefined;
  }

  /** In the table up and down choose the next node in its order, and Enter opens the chosen one. */
  keyOfTable(event) {
    if (hasModifier(event)) return;
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && this.chosen) go(this.addressOf(this.chosen));
    if (!by || !this.all.length) return;
    event.preventDefault();
    const { list } = this.sorted;
    const now = list.findIndex((node) => node.name === this.chosen?.name);
    const next = now < 0 ? Math.ceil(this.table.scrollTop / ROW) : Math.min(list.length - 1, Math.max(0, now + by));
    const top = next * ROW;
    this.table.scrollTop = Math.min(top, Math.max(this.table.scrollTop, top + ROW - this.table.clientHeight));
    this.find(list[next]);
  }

  sibling(node, by) {
    const all = [...this.nodesIn.get(node.column)].sort((one, other) => one.row - other.row);
    return all[all.indexOf(node) + by];
  }

  placeOf(node) {
    return [this.x + node.column * this.step * this.scale, this.y + node.row * this.rise * this.scale];
  }

  nodeAt(x, y) {
    const column = Math.round((x - this.x) / this.step / this.scale);
    const reach = Math.max(10, 12 * this.scale);
    return (this.nodesIn.get(column) ?? []).find((node) => {
      const [left, top] = this.placeOf(node);
      return Math.hypot(left - x, top - y) < reach;
    }) ?? null;
  }

  choose(node, bring = false) {
    this.chosen = node;
    note(this.context.address());
    if (node) {
      this.related = relatedTo(node, this.edges);
      if (bring) {
        const [x, y] = this.placeOf(node);
        if (x < 40 || x > this.canvas.clientWidth - 40) this.x += this.canvas.clientWidth / 2 - x;
        if (y < 60 || y > this.canvas.clientHeight - 40) this.y += this.canvas.clientHeight / 2 - y;
      }
      fill(this.said, node.name);
    } else this.said.textContent = "";
    this.details();
    this.soon();
    this.drawTable();
  }

  addressOf(node) {
    return nodeAddress(this.context.stream, node.name, node.round, node.sub, this.context.isLive ? undefined : this.version);
  }

  details() {
    const node = this.chosen;
    if (!node) return fill(this.context.aside, h("p", { class: "dim" }, `${counted(this.all.length, "node")}, ${counted(this.links.length, "edge")}. Choose one to see what led to it.`), this.legend());
    this.values = h("div");
    this.showValues().catch((error) => fill(this.values, h("p", { role: "alert" }, error.message)));
    return fill(this.context.aside, h("h2", {}, node.name), h("dl", {}, [["type", node.type], ["registered", `@${node.version}`], ["round", node.sub ? `${node.round}.${node.sub}` : node.round]]
      .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("p", { class: "buttons", style: { margin: "0 0 12px" } }, h("a", { class: "button", href: this.addressOf(node) }, "History of its attributes")),
    node.group ? h("p", {}, h("button", { type: "button", onclick: () => this.open(node) }, `Open ${number(node.group.length)} nodes`)) : null, this.values);
  }

  legend() {
    return h("p", {}, [...new Set(this.all.map((node) => node.type))].map((type) => [h("span", { class: "tag", style: { color: `var(--${COLOURS[type] ?? "system"})`, "border-color": "currentColor" } }, type), " "]),
      h("span", { class: "dim" }, "a circle: a state; a diamond: an action, hollow and red where it failed; a ring: the end of an active branch"));
  }

  show(version) {
    this.version = version;
    if (this.chosen) this.showValues().catch(() => {});
    else this.details();
    this.soon();
    this.drawTable();
  }

  async grown() {
    this.take(await askGraph(this.context));
    this.history = null;
    this.details();
    this.drawTable();
    this.soon();
  }

  isLater(node) {
    if (node.group) return node.group.every((one) => one.stream === this.context.stream && one.version > this.version);
    return node.stream === this.context.stream && node.version > this.version;
  }

  zoom(by, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(FARTHEST, this.scale * by));
    this.x = x - (x - this.x) * scale / this.scale;
    this.y = y - (y - this.y) * scale / this.scale;
    this.scale = scale;
    this.soon();
  }

  /** Show all of the graph, or as much of its beginning as there is room for at a scale. */
  fit(least = FARTHEST) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.scale = Math.min(1.2, Math.max(least, Math.min((width - 80) / Math.max(1, this.columns * STEP_X), (height - 120) / Math.max(1, this.rows * STEP_Y))));
    this.step = Math.min(STEP_X_MAX, Math.max(STEP_X, (width - 120) / Math.max(1, this.columns) / this.scale));
    this.rise = Math.max(STEP_Y, Math.min(RISE_MAX, (height - 120) / Math.max(1, this.rows)) / this.scale);
    this.x = Math.max(40, this.step * this.scale / 2);
    this.y = Math.max(64, (height - this.rows * this.rise * this.scale) / 2);
    this.soon();
  }

  soon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.redraw());
  }

  redraw() {
    if (!this.canvas.isConnected || this.canvas.clientWidth === 0) return;
    const { drawing, width, height } = cleared(this.canvas);
    const first = Math.floor(-this.x / this.step / this.scale) - 1;
    const last = Math.ceil((width - this.x) / this.step / this.scale) + 1;
    const line = colour("dim");
    drawing.lineWidth = Math.max(0.5, this.scale);
    drawing.strokeStyle = line;
    for (let column = Math.max(0, first - this.longest); column <= last; column++) {
      for (const edge of this.inColumn.get(column) ?? []) {
        const [x0, y0] = this.placeOf(edge.source);
        const [x1, y1] = this.placeOf(edge.target);
        const isDim = this.isLater(edge.target) || (this.chosen && !(this.related.has(edge.source) && this.related.has(edge.target)));
        drawing.globalAlpha = isDim ? 0.15 : 0.7;
        drawing.setLineDash(edge.back ? [3, 3] : []);
        drawing.beginPath();
        drawing.moveTo(x0, y0);
        if (y0 === y1) drawing.lineTo(x1, y1);
        else drawing.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
        drawing.stroke();
      }
    }
    drawing.setLineDash([]);
    drawing.font = "11px system-ui";
    const size = Math.max(1.5, Math.min(8, 7 * this.scale));
    for (let column = Math.max(0, first); column <= last; column++) {
      for (const node of this.nodesIn.get(column) ?? []) {
        const [x, y] = this.placeOf(node);
        if (y < -20 || y > height + 20) continue;
        drawing.globalAlpha = this.isLater(node) || (this.chosen && !this.related.has(node)) ? 0.25 : 1;
        drawing.fillStyle = colour(COLOURS[node.type] ?? "system");
        drawing.beginPath();
        if (node.type === "State") drawing.arc(x, y, size, 0, 7);
        else if (node.type === "Action") { drawing.moveTo(x, y - size); drawing.lineTo(x + size, y); drawing.lineTo(x, y + size); drawing.lineTo(x - size, y); }
        else drawing.rect(x - size, y - size, 2 * size, 2 * size);
        if (isFailed(node)) {
          drawing.strokeStyle = drawing.fillStyle = colour("removed");
          drawing.lineWidth = 1.5;
          drawing.closePath();
          drawing.stroke();
        } else drawing.fill();
        if (node === this.chosen || (node.pointer && size > 2.5)) {
          drawing.strokeStyle = colour(node === this.chosen ? "accent" : "text");
          drawing.lineWidth = node === this.chosen ? 2 : 1.25;
          drawing.beginPath();
          drawing.arc(x, y, size * 1.3 + 3, 0, 7);
          drawing.stroke();
        }
        if (node.group && this.scale > 0.3) {
          drawing.fillStyle = colour("text");
          drawing.fillText(`×${node.group.length}`, x + size + 5, y + 4);
        }
        if (this.step * this.scale > 56) {
          drawing.fillStyle = colour("dim");
          drawing.textAlign = "center";
          drawing.fillText(cutTo(captionOf(node), drawing, this.step * this.scale - 6), x, y + size + 13);
          drawing.textAlign = "left";
        }
      }
    }
    drawing.globalAlpha = 1;
    this.drawMinimap(width, height);
  }

  drawMinimap(width, height) {
    // It is for finding one's way: where all is on the screen there is none to find.
    const isWhole = this.x >= 0 && this.y >= 0 && this.x + this.columns * this.step * this.scale <= width + this.step && this.y + this.rows * this.rise * this.scale <= height + this.rise;
    const isHidden = isWhole || !this.table.hidden || height < 260;
    this.minimap.style.visibility = isHidden ? "hidden" : "visible";
    if (isHidden) return;
    const { drawing } = cleared(this.minimap);
    const [across, down] = [180 / Math.max(1, this.columns), 90 / Math.max(1, this.rows)];
    drawing.fillStyle = colour("dim");
    for (const node of this.nodes) drawing.fillRect(node.column * across, node.row * down, Math.min(4, Math.max(1, across)), Math.min(4, Math.max(1, down - 1)));
    drawing.strokeStyle = colour("accent");
    drawing.strokeRect(-this.x / this.step / this.scale * across, -this.y / this.rise / this.scale * down, width / this.step / this.scale * across, height / this.rise / this.scale * down);
  }

  /** The node that stands for others, one of which has a name. */
  signOf(name) {
    return this.nodes.find((one) => one.group?.some((other) => other.name === name));
  }

  /** Choose a node by its name, out of the sign that stands for it. */
  find(node) {
    const sign = this.signOf(node.name);
    if (sign && sign.name !== node.name) { this.opened.add(sign.name); this.arrange(); }
    this.choose(this.byName.get(node.name), true);
  }

  fold(isFolded) {
    this.isFolded = isFolded;
    this.opened.clear();
    this.folds.setAttribute("aria-pressed", isFolded);
    this.arrange();
    this.fit(READABLE);
    this.details();
  }

  /** Show the nodes for which a sign stands; its first node stays where it was on the screen. */
  open(node) {
    const [x, y] = this.placeOf(node);
    this.opened.add(node.name);
    this.arrange();
    const [left, top] = this.placeOf(this.byName.get(node.name));
    this.x += x - left;
    this.y += y - top;
    this.choose(this.byName.get(node.name));
  }

  toggleTable() {
    this.table.hidden = !this.table.hidden;
    this.sorting.hidden = this.table.hidden;
    this.switch.setAttribute("aria-pressed", !this.table.hidden);
    this.drawTable();
  }

  drawTable() {
    if (this.table.hidden) return;
    const first = Math.floor(this.table.scrollTop / ROW);
    const order = this.sorting.value;
    // A run has thousands of nodes, and its table is drawn at each scroll: it is sorted once for an order.
    if (this.sorted?.order !== order || this.sorted.nodes !== this.all) this.sorted = { order, nodes: this.all, list: [...this.all].sort(ORDERS[order]) };
    const shown = this.sorted.list.slice(first, first + TABLE_ROWS).map((node, at) => {
      const caption = captionOf(node);
      return h("div", { class: "line node", role: "row", "aria-rowindex": first + at + 1, "aria-selected": node.name === this.chosen?.name || undefined,
        style: { top: `${(first + at) * ROW}px`, opacity: this.isLater(node) ? "0.45" : "1" }, onclick: () => this.find(node) },
      h("span", { role: "gridcell" }, `@${node.version}`), h("span", { role: "gridcell" }, node.type),
      h("span", { role: "gridcell" }, node.name, caption === node.label ? null : h("span", { class: "dim" }, ` ${caption}`)),
      h("span", { role: "gridcell" }, isFailed(node) ? h("span", { class: "tag bad" }, "failed") : node.pointer ? h("span", { class: "tag" }, "active end") : ""));
    });
    this.table.setAttribute("aria-rowcount", this.all.length);
    fill(this.table, h("div", { class: "spacer", style: { height: `${this.all.length * ROW}px` } }, shown));
  }
}

const isFailed = (node) => node.attributes.success === false;

/** A few words for a node: what was asked, called or concluded says more than its number. */
function captionOf(node) {
  const { query, action, state, description } = node.attributes;
  const said = { Query: query, Action: action, State: description || state }[node.type] || node.label;
  return typeof said === "string" ? said.slice(0, CAPTION_MAX).split("\n")[0] : node.label;
}

/** The beginning of a text that fits. */
function cutTo(text, drawing, width) {
  if (drawing.measureText(text).width <= width) return text;
  let length = Math.min(text.length, Math.floor(width / 4));
  while (length > 1 && drawing.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length).trimEnd()}…`;
}
