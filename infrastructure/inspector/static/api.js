/** Questions to the server. An answer about a version never changes, and is kept. */

export const ROOT = document.documentElement.dataset.root;
// The stream whose events say what was erased.
const ERASURES = "store:erasures";
let meta = { token: null, cache: "" };

/** A question that the server refused, with its reason. */
export class Refused extends Error {
  constructor(kind, message, status) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

// Whole numbers that JavaScript would round, as many ids have them, are kept as they are written.
const LONG = /\d{16}/;
const exact = (name, value, { source }) => Number.isInteger(value) && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value;

async function answered(response) {
  const text = await response.text();
  let body = { error: "ServerError", message: `the server said ${response.status}` };
  try {
    body = JSON.parse(text, JSON.rawJSON && LONG.test(text) ? exact : undefined);
  } catch { /* A proxy answered. */ }
  if (!response.ok) throw new Refused(body.error, body.message, response.status);
  return body;
}

/** Ask a question; `given` are its parameters, a list repeats one. */
export async function ask(question, given = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) query.append(name, one);
  }
  if (meta.cache) query.append("start", meta.cache);
  return fetched(`${question}?${query}`, { signal });
}

async function fetched(path, settings) {
  try {
    return await answered(await fetch(`${ROOT}/api/${path}`, settings));
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Refused) throw error;
    throw new Refused("Unreachable", "the server does not answer: is `refold ui` still running?", 0);
  }
}

/** Make a change; the server takes it only from this page, by its token. */
export async function change(path, given) {
  return fetched(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-refold-token": meta.token ?? "" },
    body: JSON.stringify(given),
  });
}

export async function begin() {
  meta = await ask("meta");
  return meta;
}

export const about = () => meta;

/**
 * Load the page anew if another start of the server answers now, which may show another store, and takes another token;
 * or if texts were erased, which this page may still hold.
 */
async function checkStart() {
  const now = await ask("meta").catch(() => meta);
  if (now.cache !== meta.cache) location.reload();
}

/** The state of the page after a question that has no answer: a database that is away is neither damage nor the end of the server. */
export const stateAfter = ({ status }) => !status ? "stopped" : status === 500 ? "damaged" : "refused";

// A fault of the news within so many milliseconds after another one is the same fault.
const AGAIN = 5_000;
const bodies = new Map();
// The questions for the texts that are on their way, by origin.
const coming = new Map();
const BODIES_MAX = 5_000;
// Texts that do not come in so many milliseconds are given up, so that they can be asked for again.
const ANSWER_MAX = 60_000;

/** Return the text of an item that is known already, by its origin. */
export const known = (ref) => bodies.get(ref);

/** Ask for the items that are not known yet, those on their way once; resolves when all are there. */
export async function fetchBodies(refs) {
  const missing = refs.filter((ref) => !bodies.has(ref));
  const unasked = missing.filter((ref) => !coming.has(ref));
  for (let start = 0; start < unasked.length; start += 100) {
    const part = unasked.slice(start, start + 100);
    const asked = fetchPart(part).finally(() => { for (const ref of part) if (coming.get(ref) === asked) coming.delete(ref); });
    for (const ref of part) coming.set(ref, asked);
  }
  await Promise.all(missing.map((ref) => coming.get(ref)));
  return missing.length > 0;
}

async function fetchPart(refs) {
  const items = await ask("items", { ref: refs }, AbortSignal.timeout(ANSWER_MAX));
  for (const item of items) {
    if (item.grows) item.written = await ask("pieces", { event: item.ref }, AbortSignal.timeout(ANSWER_MAX)).catch(ifRefused);
    keep(item.ref, item);
  }
  // An item whose event is missing is damaged: the page says so in its place.
  const found = new Set(items.map((item) => item.ref));
  for (const ref of refs) if (!found.has(ref)) keep(ref, { ref, speaker: "missing", body: "this event is missing", cut: 0 });
}

/** Go on without an answer that the server refused; one that did not come is asked for again. */
function ifRefused(error) {
  if (!error.status) throw error;
}

/** The text of an item at a version of the context that recorded it: a message may be written piece by piece. */
export function bodyAt(item, version = Infinity) {
  if (!item.written) return item.body;
  const there = item.written.pieces.filter(([at]) => at <= version);
  const text = item.written.begun + there.map((piece) => piece[1]).join("");
  const reason = there.length ? there.at(-1)[2] : item.written.incomplete;
  return reason ? `${text}\n[incomplete: ${reason}]` : text;
}

/** Forget the messages that were still being written: when they are asked for again there may be more of them. */
export function forgetUnfinished() {
  for (const [ref, item] of bodies) if (item.written && !item.written.is_written) bodies.delete(ref);
  coming.clear();
}

function keep(ref, item) {
  if (bodies.size >= BODIES_MAX) bodies.delete(bodies.keys().next().value);
  bodies.set(ref, item);
}

/**
 * News of the store, one stream for all tabs of a browser: the tab that holds the lock listens and tells the others.
 * `onNews` gets {heads, events, moment}, `onState` gets connected, reconnecting or stopped, or damaged or refused with the reason;
 * `onJob` gets a rebuild or a check that went on, `onFolding` how far a question has folded the log.
 */
export function follow(after, { onNews, onState, onJob, onFolding }) {
  const channel = new BroadcastChannel(`refold-news-${location.host}${ROOT}`);
  let moment = after;
  let isAway = false;
  let faultAt = -Infinity;
  const take = (news) => {
    moment = news.moment ?? moment;
    if (isAway && news.state === "connected") checkStart();
    isAway = news.state ? news.state !== "connected" : isAway;
    if (news.state) onState(news.state, news.message);
    else if (news.job) onJob(news.job);
    else if (news.folding) onFolding(news.folding);
    else onNews(news);
    // After a longer absence the server names no contexts.
    if (news.heads && (news.heads[ERASURES] || !Object.keys(news.heads).length)) checkStart();
  };
  channel.onmessage = (message) => take(message.data);
  const tell = (news) => {
    take(news);
    channel.postMessage(news);
  };
  const listen = () => new Promise(() => {
    const open = () => {
      const source = new EventSource(`${ROOT}/api/tail?after=${encodeURIComponent(moment)}`);
      source.onopen = () => tell({ state: "connected" });
      source.onerror = () => {
        tell({ state: source.readyState === EventSource.CLOSED ? "stopped" : "reconnecting" });
        if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
      };
      source.addEventListener("news", (event) => tell({ ...JSON.parse(event.data), moment: event.lastEventId }));
      source.addEventListener("job", (event) => tell({ job: JSON.parse(event.data) }));
      source.addEventListener("folding", (event) => tell({ folding: JSON.parse(event.data) }));
      source.addEventListener("fault", (event) => {
        source.close();
        const isAgain = performance.now() - faultAt < AGAIN;
        faultAt = performance.now();
        if (!isAgain) return void goOn();
        // Asking anew did not help: the reader may not read the log, or the database does not answer.
        tell({ state: "refused", message: JSON.parse(event.data).message });
        setTimeout(open, 2000);
      });
    };
    // The server cannot go on from this moment, as after a restore of an older store: all is asked anew, and news begin now.
    const goOn = async () => {
      tell({ state: "reconnecting" });
      const now = await ask("meta").catch((error) => {
        tell({ state: stateAfter(error), message: error.message });
        setTimeout(goOn, 2000);
      });
      if (!now) return;
      tell({ heads: {}, events: 0, moment: now.moment });
      open();
    };
    open();
  });
  if (navigator.locks) navigator.locks.request(`refold-news-${location.host}${ROOT}`, listen);
  else listen();
  onState("connected");
}
