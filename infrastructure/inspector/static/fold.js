/**
 * A graph with its straight runs and its fans of leaves folded, each to its first node. Columns and rows that get empty
 * go; all others keep their order, so that no two nodes meet and nothing crosses that did not.
 */
const RUN_MIN = 6;
const FAN_MIN = 4;

/** Return the nodes and edges to draw, as copies with places; `opened` has the names of first nodes that stay open. */
export function folded(nodes, edges, opened) {
  const groups = groupsOf(nodes, edges).filter((group) => !opened.has(group[0].name));
  const first = new Map(groups.flatMap((group) => group.map((node) => [node.name, group])));
  const shown = nodes.filter((node) => (first.get(node.name) ?? [node])[0] === node).map((node) => {
    const group = first.get(node.name);
    return group ? { ...node, group, pointer: group.some((one) => one.pointer) } : { ...node };
  });
  for (const axis of ["column", "row"]) {
    const places = new Map([...new Set(shown.map((node) => node[axis]))].sort((one, other) => one - other).map((place, at) => [place, at]));
    for (const node of shown) node[axis] = places.get(node[axis]);
  }
  const byName = new Map(shown.map((node) => [node.name, node]));
  const drawn = new Map();
  for (const edge of edges) {
    const [source, target] = [edge.source, edge.target].map((node) => byName.get((first.get(node.name) ?? [node])[0].name));
    if (source !== target || edge.source === edge.target) drawn.set(`${source.name} ${target.name}`, { ...edge, source, target });
  }
  return { nodes: shown, edges: [...drawn.values()], byName };
}

/** Return the lists of nodes that one sign can stand for. */
function groupsOf(nodes, edges) {
  const [into, from] = [new Map(), new Map()];
  for (const edge of edges) {
    if (!into.has(edge.target)) into.set(edge.target, []);
    if (!from.has(edge.source)) from.set(edge.source, []);
    into.get(edge.target).push(edge);
    from.get(edge.source).push(edge);
  }
  const only = (all) => all?.length === 1 && !all[0].back ? all[0] : null;
  // A node within a run has one edge to it and one from it, and the same agent before it.
  const isWithin = (node) => only(into.get(node)) && only(from.get(node)) && into.get(node)[0].source.stream === node.stream;
  const groups = [];
  const fans = new Map();
  for (const node of nodes) {
    const edge = only(into.get(node));
    if (!edge) continue;
    if (isWithin(node) && !isWithin(edge.source)) {
      const run = [];
      for (let one = node; isWithin(one); one = from.get(one)[0].target) run.push(one);
      if (run.length >= RUN_MIN) groups.push(run);
    } else if (!from.has(node) && edge.source.stream === node.stream) {
      const key = `${edge.source.name} ${node.type}`;
      if (!fans.has(key)) fans.set(key, []);
      fans.get(key).push(node);
    }
  }
  return [...groups, ...[...fans.values()].filter((fan) => fan.length >= FAN_MIN)];
}

/** Return a node with all that led to it and all that came of it. */
export function relatedTo(node, edges) {
  const found = new Set([node]);
  for (const [from, to] of [["source", "target"], ["target", "source"]]) {
    const next = new Map();
    for (const edge of edges) {
      if (!next.has(edge[from])) next.set(edge[from], []);
      next.get(edge[from]).push(edge[to]);
    }
    const waiting = [node];
    const seen = new Set(waiting);
    while (waiting.length) {
      for (const other of next.get(waiting.pop()) ?? []) if (!seen.has(other)) { seen.add(other); found.add(other); waiting.push(other); }
    }
  }
  return found;
}
