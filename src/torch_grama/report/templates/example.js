"use strict";
// The example graph: a chosen node's influence on all others, step by step.
(() => {
  const LOWEST = -4; // powers of ten below the strongest influence that still have a colour

  function setUp(figure) {
    const id = figure.dataset.example;
    const graph = grama.content.examples[id];
    const part = (role) => figure.querySelector(`[data-role="${role}"]`);
    const [node, step, label, words] = ["node", "step", "label", "words"].map(part);
    graph.sources.forEach((place, index) => {
      const option = document.createElement("option");
      option.value = String(index);
      option.textContent = String(graph.nodes[place]);
      node.append(option);
    });
    const hops = graph.sources.map((place) => distances(graph, place));
    let clickable = false;

    function draw() {
      const chosen = Number(node.value);
      const now = Number(step.value);
      const influence = graph.spread[chosen][now];
      const strongest = Math.max(...influence);
      // colours share one scale over all steps of a node, so that growth and decay are seen
      const scale = Math.max(...graph.spread[chosen].map((row) => Math.max(...row))) || 1;
      const colors = grama.theme();
      const level = influence.map((v) => (v > 0 ? Math.max(LOWEST, Math.log10(v / scale)) : LOWEST));
      const source = graph.sources[chosen];
      const able = new Set(graph.sources);
      const xy = (places, axis) => places.map((place) => graph.positions[place][axis]);
      const all = graph.positions.map((_, place) => place);
      const ends = (axis) => graph.edges.flatMap(([a, b]) => [graph.positions[a][axis], graph.positions[b][axis], null]);
      const data = [
        { type: "scatter", mode: "lines", x: ends(0), y: ends(1), line: { color: colors.muted, width: 1 }, opacity: 0.6, hoverinfo: "skip" },
        {
          type: "scatter", mode: "markers", x: xy(all, 0), y: xy(all, 1),
          text: all.map((place) => `node ${graph.nodes[place]}, ${far(hops[chosen][place])}<br>influence ${influence[place].toExponential(2)}`),
          hovertemplate: "%{text}<extra></extra>",
          marker: {
            size: all.map((place) => (place === source ? 20 : 14)), color: level, opacity: 1, cmin: LOWEST, cmax: 0,
            symbol: all.map((place) => (place === source ? "star" : "circle")),
            colorscale: [[0, colors.middle], [0.35, "#56B4E9"], [0.7, "#E69F00"], [1, "#D55E00"]],
            line: { color: all.map((place) => (able.has(place) ? colors.ink : colors.muted)), width: all.map((place) => (able.has(place) ? 1.6 : 0.6)) },
            colorbar: { thickness: 12, outlinewidth: 0, title: { text: "influence", side: "right" }, tickvals: [-4, -3, -2, -1, 0], ticktext: ["≤ 0.01 %", "0.1 %", "1 %", "10 %", "100 %"] },
          },
        },
      ];
      const layout = grama.layout({ xaxis: { visible: false, fixedrange: true, range: [-1.12, 1.12] }, yaxis: { visible: false, fixedrange: true, range: [-1.12, 1.12], scaleanchor: "x" } });
      layout.margin = { l: 4, r: 4, t: 4, b: 4 };
      layout.showlegend = false;
      layout.dragmode = false;
      label.textContent = graph.labels[now];
      step.setAttribute("aria-valuetext", graph.labels[now]);
      const reached = influence.map((v, place) => [v, hops[chosen][place]]).filter(([v]) => v > 0 && v >= strongest / 100);
      const furthest = Math.max(0, ...reached.map(([, hop]) => hop).filter(Number.isFinite));
      words.textContent = `Node ${graph.nodes[source]}, ${graph.labels[now]}: ${reached.length} of ${influence.length} nodes feel at least 1 % of the strongest influence, the furthest ${furthest} hop${furthest === 1 ? "" : "s"} away.`;
      const place = document.getElementById(id);
      const done = Plotly.react(place, data, layout, { ...grama.settings, displayModeBar: false });
      if (!clickable) {
        clickable = true;
        place.on("plotly_click", (event) => {
          const point = event.points.find((candidate) => candidate.curveNumber === 1);
          const index = point ? graph.sources.indexOf(point.pointIndex) : -1;
          if (index < 0) return;
          node.value = String(index);
          node.dispatchEvent(new Event("input"));
        });
      }
      return done;
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
