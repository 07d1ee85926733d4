/**
 * The window of versions that the page has of a context with too many items for one answer. Within it the page goes
 * along without a question; beyond it, it asks for the next one, and before its end is reached.
 */
import { ask } from "./api.js";

/** A version so near to the end of the window, as a part of it, has the next window asked for ahead. */
const NEAR = 0.1;

/** Whether a window of an index has a version; an index without one has all. */
export const hasVersion = ({ window }, version) => !window || (window.first <= version && version <= window.last);

/** The number and the tokens of the items that are there, but were left out. */
export const heldOf = ({ window }) => ({ count: window?.held.count ?? 0, tokens: (window?.held.sums ?? []).reduce((sum, one) => sum + one[2], 0) });

/** The tokens that came and that left, for each `step` versions of a context; an item counts at least as `least`. */
export function sumsOf({ sums, items: { v0, v1, tokens }, head }, least = 0) {
  if (sums) return sums;
  const [came, left] = [new Float64Array(head), new Float64Array(head)];
  for (let place = 0; place < v0.length; place++) {
    // Those beyond the head, of a damaged context, are set at no place.
    came[v0[place] - 1] += Math.max(least, tokens[place]);
    if (v1[place]) left[v1[place] - 1] += Math.max(least, tokens[place]);
  }
  return { step: 1, came, left };
}

export class Windows {
  /** `taken(answer)` is called with each window that a version needed; `failed(error)` where there is none. */
  constructor(stream, taken, failed) {
    Object.assign(this, { stream, taken, failed, isWhole: false, ahead: null, next: null, wanted: null, isAsking: false });
  }

  /** Forget what was asked for ahead, as the context has grown since. */
  forget() {
    this.ahead = this.next = null;
  }

  /** Ask for the window of a version; of the versions that a reader passes meanwhile only the last one counts. */
  async go(version) {
    this.wanted = version;
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      while (this.wanted !== null) {
        const at = this.wanted;
        const answer = await (this.ahead ?? this.ask(at));
        this.forget();
        if (!hasVersion(answer, at)) continue;
        if (at === this.wanted) this.wanted = null;
        this.taken(answer);
      }
    } catch (error) {
      this.wanted = null;
      this.forget();
      this.failed(error);
    }
    this.isAsking = false;
  }

  /** Ask for the window before or behind a window, if a version is near its end. */
  look({ first, last }, version, head) {
    const near = Math.ceil((last - first) * NEAR);
    const next = version > last - near && last < head ? last + 1 : version < first + near && first > 1 ? first - 1 : null;
    if (next === null || this.next === next || this.isAsking) return;
    this.next = next;
    this.ahead = this.ask(next);
    this.ahead.catch(() => this.forget());
  }

  /** Have the items that were left out of the window, too. */
  load(version) {
    this.isWhole = true;
    this.forget();
    return this.go(version);
  }

  ask(version) {
    return ask("intervals", { context: this.stream, version, whole: this.isWhole ? 1 : undefined });
  }
}
