"use strict";
// The example graph: a chosen node's influence on all others, step by step.
(() => {
  const DECADES = 4; // powers of ten below the strongest influence that still have a colour
  const STOPS = ["var(--middle)", "#56b4e9", "#e69f00", "#d55e00"];
  function heat(level) {
    const place = Math.min(2.999, level * 3), low = Math.floor(place);
    return `color-mix(in srgb, ${STOPS[low + 1]} ${Math.round(100 * (place - low))}%, ${STOPS[low]})`;
  }

  function setUp(figure) {
    const id = figure.dataset.example;
    const graph = grama.content.examples[id];
    const part = (role) => figure.querySelector(`[data-role="${role}"]`);
    const [node, step, label, words] = ["node", "step", "label", "words"].map(part);
    graph.sources.forEach((place, index) => {
      const option = document.createElement("option");
      option.value = String(index);
      option.textContent = graph.nodes[place];
      node.append(option);
    });
    const hops = graph.sources.map((place) => distances(graph, place));

    function draw() {
      const chosen = Number(node.value);
      const now = Number(step.value);
      const influence = graph.spread[chosen][now];
      const strongest = Math.max(...influence);
      // colours share one scale over all steps of a node, so that growth and decay are seen
      const scale = Math.max(...graph.spread[chosen].map((row) => Math.max(...row))) || 1;
      const source = graph.sources[chosen];
      const able = new Set(graph.sources);
      const place = document.getElementById(id);
      const width = Math.max(260, place.clientWidth), height = Number(place.dataset.height);
      const room = 26, bar = 88, side = Math.min(width - bar, height) - 2 * room;
      const at = ([x, y]) => [room + (side * (1 + x)) / 2 + (width - bar - 2 * room - side) / 2, room + (side * (1 - y)) / 2];
      const spots = graph.positions.map(at);
      const svg = chart.canvas(place, width, height);
      for (const [a, b] of graph.edges) chart.add(svg, "path", { class: "edge", d: `M${spots[a]}L${spots[b]}` });
      spots.forEach(([x, y], spot) => {
        const level = influence[spot] > 0 ? Math.max(0, 1 + Math.log10(influence[spot] / scale) / DECADES) : 0;
        const sign = spot === source ? "star" : "circle";
        const dot = chart.mark(svg, sign, x, y, spot === source ? 11 : 7, { class: able.has(spot) ? "node able" : "node", fill: heat(level) });
        chart.add(dot, "title", {}, `node ${graph.nodes[spot]}, ${far(hops[chosen][spot])}, influence ${influence[spot].toExponential(2)}`);
        const index = graph.sources.indexOf(spot);
        if (index >= 0) dot.addEventListener("click", () => { node.value = String(index); draw(); });
      });
      const named = []; // where names stand already: of those that would overlap the first is shown
      for (const spot of [source, ...graph.sources, ...(spots.length > 25 ? [] : spots.keys())]) {
        const [x, y] = spots[spot], text = graph.nodes[spot], name = text.length > 14 ? `${text.slice(0, 13)}…` : text;
        if (named.some(([a, b]) => Math.abs(a - x) < 7.5 * name.length && Math.abs(b - y) < 14)) continue;
        named.push([x, y]);
        chart.add(svg, "text", { class: "name", x, y: y - 12, "text-anchor": "middle" }, name);
      }
      for (let i = 0; i < 24; i += 1) {
        chart.add(svg, "rect", { x: width - bar + 12, y: room + side * (1 - (i + 1) / 24), width: 11, height: side / 24 + 0.5, fill: heat((i + 0.5) / 24) });
      }
      ["≤ 0.01 %", "0.1 %", "1 %", "10 %", "100 %"].forEach((text, i) => chart.add(svg, "text", { x: width - bar + 28, y: room + 9 + (side - 10) * (1 - i / DECADES) }, text));
      label.textContent = graph.labels[now];
      step.setAttribute("aria-valuetext", graph.labels[now]);
      const reached = influence.map((v, place) => [v, hops[chosen][place]]).filter(([v]) => v > 0 && v >= strongest / 100);
      const furthest = Math.max(0, ...reached.map(([, hop]) => hop).filter(Number.isFinite));
      words.textContent = `Node ${graph.nodes[source]}, ${graph.labels[now]}: ${reached.length} of ${influence.length} nodes feel at least 1 % of the strongest influence, the furthest ${furthest} hop${furthest === 1 ? "" : "s"} away.`;
    }
    node.addEventListener("input", draw);
    step.addEventListener("input", draw);
    grama.play(part("play"), step, 450);
    grama.register(id, draw);
  }

  const far = (hop) => (Number.isFinite(hop) ? `${hop} hop${hop === 1 ? "" : "s"} away` : "without a path");

  function distances(graph, start) {
    const near = graph.positions.map(() => []);
    for (const [a, b] of graph.edges) { near[a].push(b); near[b].push(a); }
    const found = graph.positions.map(() => Infinity);
    found[start] = 0;
    for (let queue = [start]; queue.length;) {
      const next = [];
      for (const place of queue) for (const other of near[place]) {
        if (found[other] === Infinity) { found[other] = found[place] + 1; next.push(other); }
      }
      queue = next;
    }
    return found;
  }

  document.querySelectorAll("[data-example]").forEach(setUp);
})();
