/** The versions of a context on one line: what came and what left at each, marks, and a slider to go along. */
import { cleared, colour, debounced, fill, h, icon, number, say, time } from "./dom.js";
import { keyOf } from "./keys.js";
import { sumsOf } from "./windows.js";

const SPEEDS = [["1", "1 ×", 400], ["4", "4 ×", 100], ["real", "as recorded", 0]];
const LONGEST_PAUSE = 2_000;
const TOLD_AFTER = 300;
const BAR = 9;
const MARK = 11;
const MARKS = { forked: "◆", branched: "◆", merged: "◎", summary: "▼", named: "●", saved: "○" };

/** Return the first and the last version of a window, as the address has it; null if it is none. */
export function windowOf(text, head) {
  const [, first, last] = /^(\d+)-(\d+)$/.exec(text ?? "") ?? [];
  return first >= 1 && Number(first) < Number(last) && Number(first) < head ? [Number(first), Math.min(Number(last), head)] : null;
}

/**
 * Make the line for a context's index. `seek(version, how)` is called with each step; how is "scrub" while the reader
 * drags, and "jump" where Back shall return from it. `narrow` is called with the window that was marked, or null.
 */
export class Timeline {
  constructor(seek, narrow) {
    Object.assign(this, { seek, narrow, win: null, begun: null });
    this.version = 0;
    this.index = null;
    this.canvas = h("canvas", { "aria-hidden": "true", title: "Shift and drag: narrow to these versions" });
    // A screen reader is told where the reader came to, by whichever way, once they stay there.
    this.tell = debounced(TOLD_AFTER, () => { if (!this.playing && this.canvas.isConnected) say(this.about()); });
    this.listen();
    this.all = h("button", { type: "button", class: "window", hidden: true, onclick: () => narrow(null) });
    this.range = h("input", { type: "range", min: 1, step: 1, "aria-label": "Version" });
    this.range.addEventListener("input", () => seek(Number(this.range.value), "scrub"));
    this.number = h("input", { class: "version", "aria-label": "Version, time, name or item", title: "a version, -5, a time, a name, or an item" });
    this.number.addEventListener("change", () => seek(this.number.value.replace(/^@/, "").trim(), "jump"));
    this.playing = null;
    const step = (name, label, key, run) => h("button", { type: "button", title: `${label} (${keyOf(key)})`, "aria-label": label, onclick: run }, icon(name));
    this.play = step("play", "Play", "Space", () => this.toggle());
    this.speed = h("select", { "aria-label": "Speed", class: "version" }, SPEEDS.map(([value, name]) => h("option", { value }, name)));
    this.said = h("span", { class: "about" });
    this.steps = h("div", { class: "steps" },
      step("first", "To the beginning", "Home", () => seek(1, "jump")), step("back", "One version back", "ArrowLeft", () => this.by(-1)),
      this.play, step("next", "One version on", "ArrowRight", () => this.by(1)),
      step("last", "To the newest version", "End", () => seek(this.index.head, "jump")), this.number, this.speed, this.all, this.said);
    this.element = h("div", { class: "timeline" }, this.canvas, this.range);
  }

  /** Let the reader go to a version with a click, and mark a window with Shift and a drag. */
  listen() {
    let first = null;
    const at = (event) => Math.min(this.index.head, Math.max(1, Math.ceil(event.offsetX / this.canvas.clientWidth * this.index.head)));
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!event.shiftKey) return this.seek(at(event), "jump");
      event.preventDefault();
      this.canvas.setPointerCapture(event.pointerId);
      first = at(event);
      return undefined;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!first) return;
      this.win = [first, at(event)].sort((one, other) => one - other);
      this.draw();
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (!first) return;
      const win = [first, at(event)].sort((one, other) => one - other);
      first = null;
      this.narrow(win[0] < win[1] ? win : null);
    });
  }

  /** Begin a window at this version, end the one that was begun, or show all versions again. */
  mark() {
    if (this.win) return this.narrow(null);
    if (this.begun && this.begun !== this.version) return this.narrow([this.begun, this.version].sort((one, other) => one - other));
    this.begun = this.begun ? null : this.version;
    say(this.begun ? `a window from version ${this.begun}: go to another one, and press W` : "no window");
    return this.show(this.version);
  }

  /** Take an index, as the server gives it; it may have grown. */
  take(index) {
    this.index = index;
    this.range.max = Math.max(1, index.head);
    // The knob stands where the drawing has its version.
    this.element.style.setProperty("--share", (index.head - 1) / Math.max(1, index.head));
    // What came and left, for each `step` versions; the step is 1 if all items are here.
    Object.assign(this, sumsOf(index, 1));
    // A context without intervals has a bar for each version.
    this.isPlain = !index.items.v0.length;
    if (this.isPlain) this.came.fill(1);
    this.takeTurns(index);
    this.marks = marksOf(index);
    this.draw();
  }

  /** Take the versions in which the user spoke; of a window, those in it and the next ones. */
  takeTurns({ items: { v0, role, type }, window }) {
    const found = window?.turns ?? v0.filter((_, place) => role[place] === "user" && type[place] === "message");
    this.turns = [...new Set(found)].sort((one, other) => one - other);
  }

  /** Show a version. */
  show(version) {
    this.version = version;
    this.range.value = version;
    this.number.value = `@${version}`;
    this.range.setAttribute("aria-valuetext", this.about());
    fill(this.said, this.words((actor) => h("bdi", {}, actor)));
    const [first, last] = this.win ?? [this.begun, "…"];
    this.all.hidden = !first;
    fill(this.all, `@${first}–${last}`, icon("close"), h("span", { class: "unseen" }, "show all versions"));
    this.draw();
  }

  about() {
    return this.words((actor) => actor).join("");
  }

  /** Return the words about the version, in parts; `shown` makes the part for the actor. */
  words(shown) {
    const { versions, head } = this.index;
    const place = this.version - versions.first;
    if (place < 0 || place >= versions.at.length) return [`version ${number(this.version)} of ${number(head)}`];
    const actor = versions.actors[versions.actor[place]];
    const type = versions.types[versions.type[place]].split(".")[1].replaceAll("_", " ");
    return [`${number(this.version)} of ${number(head)} · ${type}`, ...actor ? [" by ", shown(actor)] : [], ` · ${time(versions.at[place])}`];
  }

  by(steps) {
    this.seek(Math.min(this.index.head, Math.max(1, this.version + steps)), "scrub");
  }

  /** Go to the next turn of the user, or with -1 to the one before. */
  turn(direction) {
    const found = direction > 0 ? this.turns.find((one) => one > this.version) : this.turns.findLast((one) => one < this.version);
    if (found) this.seek(found, "jump");
  }

  get end() {
    return this.win?.[1] ?? this.index.head;
  }

  toggle() {
    if (this.playing) this.stop();
    else {
      if (this.version >= this.end) this.seek(this.win?.[0] ?? 1, "scrub");
      fill(this.play, icon("pause"));
      this.play.setAttribute("aria-label", "Pause");
      this.playing = setTimeout(() => this.tick(), this.pause());
    }
  }

  pause() {
    const fixed = SPEEDS.find(([value]) => value === this.speed.value)[2];
    const { at, first } = this.index.versions;
    const place = this.version - first;
    return fixed || Math.min(LONGEST_PAUSE, Math.max(16, (at[place + 1] ?? 0) - (at[place] ?? 0)));
  }

  tick() {
    this.by(1);
    if (this.version >= this.end) this.stop();
    else this.playing = setTimeout(() => this.tick(), this.pause());
  }

  stop() {
    clearTimeout(this.playing);
    this.playing = null;
    fill(this.play, icon("play"));
    this.play.setAttribute("aria-label", "Play");
  }

  draw() {
    if (!this.index || !this.canvas.isConnected) return;
    const { drawing, width, height } = cleared(this.canvas);
    const { head } = this.index;
    const buckets = Math.max(1, Math.min(head, Math.floor(width / 3)));
    const came = new Float64Array(buckets);
    const left = new Float64Array(buckets);
    for (let at = 0; at < this.came.length; at++) {
      const bucket = Math.min(buckets - 1, Math.floor(at * this.step * buckets / head));
      came[bucket] += this.came[at];
      left[bucket] += this.left[at];
    }
    const middle = height * 0.66;
    // The root of a number, so that one long message does not hide all others.
    const [top, bottom] = [came, left].map((sums) => Math.sqrt(Math.max(1, ...sums)));
    const each = width / buckets;
    const wide = Math.min(BAR, Math.max(1, each - 1));
    const aside = Math.max(0, (each - wide) / 2);
    const here = this.version * buckets / head;
    for (let bucket = 0; bucket < buckets; bucket++) {
      drawing.globalAlpha = bucket < here ? 0.9 : 0.25;
      drawing.fillStyle = colour("accent");
      const up = this.isPlain ? 5 : Math.sqrt(came[bucket]) / top * (middle - 12);
      drawing.fillRect(bucket * each + aside, middle - up, wide, up);
      drawing.fillStyle = colour("removed");
      const down = Math.sqrt(left[bucket]) / bottom * (height - middle);
      drawing.fillRect(bucket * each + aside, middle + 1, wide, down);
    }
    drawing.globalAlpha = 1;
    drawing.fillStyle = colour("dim");
    drawing.font = "10px system-ui";
    if (this.turns.length < width / 4) for (const turn of this.turns) drawing.fillRect((turn - 0.5) / head * width, height - 4, 1, 4);
    let free = 0;
    for (const mark of this.marks) {
      // One that would lie upon another goes beside it, if that is not far from its place.
      const place = Math.min(width - 8, Math.max(0, (mark.version - 0.5) / head * width - 4));
      if (free - place > MARK) continue;
      drawing.fillText(MARKS[mark.kind] ?? "|", Math.max(free, place), 10);
      free = Math.max(free, place) + MARK;
    }
    const [first, last] = this.win ?? [];
    if (first) {
      drawing.globalAlpha = 0.6;
      drawing.fillStyle = colour("sunk");
      drawing.fillRect(0, 0, (first - 1) / head * width, height);
      drawing.fillRect(last / head * width, 0, width, height);
      drawing.globalAlpha = 1;
    }
    drawing.fillStyle = colour("text");
    drawing.fillRect(Math.min(width - 1, Math.max(0, (this.version - 0.5) / head * width)), 0, 1, height);
    if (this.from) {
      drawing.fillStyle = colour("warn");
      drawing.fillRect(Math.max(0, (this.from - 0.5) / head * width - 1), 0, 2, height);
    }
  }
}

/** Return where a context was forked from and to, merged, summarised and named. */
function marksOf(index) {
  const { newest: versions, lineage, context } = index;
  const marks = lineage.map((edge) => edge.target === context ? { version: edge.target_version, kind: edge.kind }
    : { version: edge.source_version, kind: edge.kind });
  versions.type.forEach((type, place) => {
    const kind = { summarized: "summary", named: "named", state_saved: "saved" }[versions.types[type].split(".")[1]];
    if (kind) marks.push({ version: versions.first + place, kind });
  });
  return marks.filter((mark) => mark.version > 0 && mark.version <= index.head).sort((one, other) => one.version - other.version);
}
