/** The border between two panes: dragged, or moved with keys; the width of the pane beside it is kept. */
import { h, kept } from "./dom.js";

const KEPT = "refold-details-width";
const [LEAST, USUAL, STEP] = [220, 340, 20];

export class Splitter {
  constructor(pane) {
    this.pane = pane;
    this.element = h("div", { class: "splitter", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": "Width of the details", "aria-valuemin": LEAST });
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      this.drag = { x: event.clientX, width: this.width };
    });
    this.element.addEventListener("pointermove", (event) => { if (this.drag) this.set(this.drag.width + this.drag.x - event.clientX); });
    this.element.addEventListener("pointerup", () => { this.drag = null; });
    this.element.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      this.by(by);
    });
    this.set(Number(kept.getItem(KEPT)) || USUAL);
  }

  by(pixels) {
    this.set(this.width + pixels);
  }

  set(pixels) {
    const most = Math.max(LEAST, innerWidth - 320);
    this.width = Math.min(most, Math.max(LEAST, Math.round(pixels)));
    this.pane.style.setProperty("--width", `${this.width}px`);
    this.element.setAttribute("aria-valuemax", most);
    this.element.setAttribute("aria-valuenow", this.width);
    kept.setItem(KEPT, this.width);
  }
}
