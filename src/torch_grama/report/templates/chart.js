"use strict";
// Draws figures as SVG in colours of the style sheet: curves, marks, bands, bars and cells on two
// axes. The pointer names what it is near; a frame drawn with the mouse is looked at more closely.
const chart = (() => {
  const SIGNS = {
    circle: "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z", square: "M-.9,-.9H.9V.9H-.9Z",
    diamond: "M0,-1.3L1.1,0L0,1.3L-1.1,0Z", up: "M0,-1.2L1.15,.85H-1.15Z", down: "M0,1.2L1.15,-.85H-1.15Z",
    plus: "M-.4,-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
    x: "M0,-.5L.6,-1.1L1.1,-.6L.5,0L1.1,.6L.6,1.1L0,.5L-.6,1.1L-1.1,.6L-.5,0L-1.1,-.6L-.6,-1.1Z",
    star: "M0,-1.4L.35,-.45L1.35,-.43L.55,.18L.83,1.14L0,.57L-.83,1.14L-.55,.18L-1.35,-.43L-.35,-.45Z",
  };
  const NEAR = 28; // pixels from the pointer to what it names
  const LETTER = 6.6, LONGEST = 18; // width of a letter, and letters of a label at an axis
  const states = new WeakMap(); // place -> what its reader has hidden and zoomed into
  const color = (index) => `var(--c${index})`;
  const known = (value) => typeof value === "number";

  function add(parent, tag, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  }
  function canvas(place, width, height) {
    place.replaceChildren();
    return add(place, "svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  }
  function mark(parent, sign, x, y, size, attributes) {
    const transform = `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${size})`;
    return add(parent, "path", { d: SIGNS[sign], transform, "vector-effect": "non-scaling-stroke", ...attributes });
  }

  function format(value) {
    if (!known(value)) return "-";
    const size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  }
  const power = (exponent) => `10${[...String(exponent)].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
  const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

  // An axis: its ends (logarithms if it is logarithmic), and its ticks with their labels.
  function makeAxis(spec, values, pixels, zoom) {
    if (spec.names) {
      const every = Math.ceil((spec.names.length * 15) / pixels);
      const ticks = spec.names.map((name, place) => [place, short(name)]).filter(([place]) => place % every === 0);
      return { low: -0.5, high: spec.names.length - 0.5, ticks, read: (value) => value };
    }
    const read = spec.log ? (value) => (value > 0 ? Math.log10(value) : null) : (value) => value;
    const there = values.map(read).filter(known);
    let [low, high] = zoom || spec.span || [Math.min(...there), Math.max(...there)];
    if (!there.length && !zoom && !spec.span) [low, high] = [0, 1];
    if (!zoom && !spec.span) {
      if (spec.zero && !spec.log) [low, high] = [Math.min(0, low), Math.max(0, high)];
      if (low === high) [low, high] = [low && low - 0.5, high + 0.5];
      const room = 0.04 * (high - low);
      [low, high] = [spec.zero && low === 0 ? 0 : low - room, high + room];
    }
    const count = Math.max(2, pixels / 60);
    if (spec.log && high - low > 1.5) {
      const step = Math.ceil((high - low) / count);
      const first = Math.ceil(low / step) * step;
      return { low, high, read, ticks: Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, i) => [first + i * step, power(first + i * step)]) };
    }
    if (spec.log) {
      const near = [...Array(4).keys()].flatMap((i) => [1, 2, 5].map((digit) => digit * 10 ** (Math.floor(low) + i)));
      return { low, high, read, ticks: near.map((value) => [Math.log10(value), format(value)]).filter(([place]) => place >= low && place <= high) };
    }
    const rough = (high - low) / count, unit = 10 ** Math.floor(Math.log10(rough));
    let step = unit * [1, 2, 5, 10].find((digit) => digit * unit >= rough * 0.9);
    if (spec.whole) step = Math.max(1, Math.round(step));
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high + 1e-9 * step; i += 1) ticks.push([i * step, format(Number((i * step).toPrecision(12)))]);
    return { low, high, ticks, read };
  }

  const mix = (name, share) => `color-mix(in srgb, ${name} ${Math.round(100 * share)}%, var(--middle))`;
  // The colour of a number between two bounds: away from zero if it lies between them.
  function shade(value, [low, high]) {
    if (!known(value)) return "transparent";
    if (low === 0) return mix("var(--much)", value / high);
    return mix(value < 0 ? "var(--much)" : "var(--warm)", Math.min(1, Math.abs(value) / high));
  }

  // Draws traces into a place; legend and pointer text go into the figure around it.
  function draw(place, traces, figure) {
    if (!states.has(place)) states.set(place, { hidden: new Set(), zoom: {} });
    const state = states.get(place), { hidden, zoom } = state;
    const width = Math.max(260, place.clientWidth);
    let height = Number(place.dataset.height);
    const shown = traces.filter((trace) => !hidden.has(trace.name));
    const cells = traces.find((trace) => trace.kind === "cells");
    const bars = shown.filter((trace) => trace.kind === "bars");
    const named = cells || traces.find((trace) => trace.kind === "bars");
    const specs = {
      x: { ...figure.x, names: named && named.x },
      y: { ...figure.y, names: cells && [...cells.y].reverse() },
    };
    const all = (name) => shown.flatMap((trace) => [...trace[name], ...(name === "y" && trace.top ? trace.top : [])]);
    const frame = { top: 12, right: cells ? 66 : 10, bottom: specs.x.title ? 42 : 24, left: 0 };
    const tall = () => height - frame.top - frame.bottom;
    let yAxis = makeAxis(specs.y, all("y"), tall(), zoom.y);
    frame.left = 12 + LETTER * Math.max(2, ...yAxis.ticks.map(([, label]) => label.length)) + (specs.y.title ? 18 : 0);
    const wide = () => width - frame.left - frame.right;
    let xAxis = makeAxis(specs.x, all("x"), wide(), zoom.x);
    const longest = Math.max(1, ...xAxis.ticks.map(([, label]) => label.length));
    const slanted = specs.x.names && longest * LETTER > wide() / xAxis.ticks.length;
    if (slanted) {
      frame.bottom += Math.min(90, longest * LETTER * 0.7);
      yAxis = makeAxis(specs.y, all("y"), tall(), zoom.y);
    }
    if (figure.x.equal) { // one unit is as long on both axes
      const side = Math.min(wide(), tall()), spare = wide() - side;
      frame.left += spare / 2; frame.right += spare / 2; height -= tall() - side;
      xAxis = makeAxis(specs.x, [], side, zoom.x);
    }
    const toX = (value) => frame.left + ((value - xAxis.low) / (xAxis.high - xAxis.low)) * wide();
    const toY = (value) => frame.top + ((yAxis.high - value) / (yAxis.high - yAxis.low)) * tall();

    place.style.minHeight = `${height}px`;
    const svg = canvas(place, width, height);
    for (const [value, label] of xAxis.ticks) {
      if (!specs.x.names) add(svg, "path", { class: "rule", d: `M${toX(value)},${frame.top}v${tall()}` });
      const [x, y] = [toX(value), height - (slanted ? frame.bottom - 12 : frame.bottom - 16)];
      add(svg, "text", slanted ? { transform: `translate(${x},${y}) rotate(-40)`, "text-anchor": "end" } : { x, y, "text-anchor": "middle" }, label);
    }
    for (const [value, label] of yAxis.ticks) {
      if (!specs.y.names) add(svg, "path", { class: "rule", d: `M${frame.left},${toY(value)}h${wide()}` });
      add(svg, "text", { x: frame.left - 6, y: toY(value) + 4, "text-anchor": "end" }, label);
    }
    const middle = frame.top + tall() / 2;
    if (specs.x.title) add(svg, "text", { x: frame.left + wide() / 2, y: height - 5, "text-anchor": "middle" }, specs.x.title);
    if (specs.y.title) add(svg, "text", { transform: `translate(12,${middle}) rotate(-90)`, "text-anchor": "middle" }, specs.y.title);

    const clip = `clip-${place.id}`;
    add(add(svg, "clipPath", { id: clip }), "rect", { x: frame.left - 1, y: frame.top - 1, width: wide() + 2, height: tall() + 2 });
    const area = add(svg, "g", { "clip-path": `url(#${clip})` });
    const points = []; // [x, y, what the pointer is told]
    for (const trace of shown) {
      const at = trace.kind === "cells" || trace.kind === "bars" ? [] : trace.x.map((x, i) => {
        const [across, up] = [xAxis.read(x), yAxis.read(trace.y[i])];
        return known(across) && known(up) ? [toX(across), toY(up), i] : null;
      });
      const path = (list) => list.map((point, i) => (point ? `${i && list[i - 1] ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}` : "")).join("");
      const told = (i) => [trace.name, `${figure.x.title} ${format(trace.x[i])}: ${format(trace.y[i])}`, trace.text && trace.text[i]].filter(Boolean).join("\n");
      if (trace.kind === "guide") add(area, "path", { class: "guide", d: path(at) });
      else if (trace.kind === "band") {
        const top = trace.x.map((x, i) => (at[i] && known(trace.top[i]) ? [toX(x), toY(trace.top[i])] : null));
        const outline = [...at.filter(Boolean), ...top.filter(Boolean).reverse()];
        add(area, "path", { d: path(outline), fill: color(trace.color), "fill-opacity": 0.18 });
      } else if (trace.kind === "cells") {
        const last = trace.y.length - 1, [w, h] = [wide() / trace.x.length, tall() / trace.y.length];
        const gap = h > 6 ? 1 : 0, written = w >= 36 && h >= 15;
        trace.z.forEach((row, i) => row.forEach((value, j) => {
          const [x, y] = [toX(j), toY(last - i)];
          add(area, "rect", { x: x - w / 2, y: y - h / 2, width: w - gap, height: h - gap, fill: shade(value, trace.bounds) });
          const text = trace.text ? trace.text[i][j] : known(value) ? value.toFixed(2) : "";
          const strong = Math.abs(value) > 0.55 * trace.bounds[1];
          if (written) add(area, "text", { x, y: y + 4, class: strong ? "strong" : "ink", "text-anchor": "middle" }, text);
          points.push([x, y, [`${trace.y[i]}, ${trace.x[j]}`, trace.text && trace.text[i][j], format(value) + (trace.unit ? ` ${trace.unit}` : "")].filter(Boolean).join("\n"), Math.max(w, h)]);
        }));
        for (let i = 0; i < 24; i += 1) { // the scale beside it
          const value = trace.bounds[0] + ((i + 0.5) / 24) * (trace.bounds[1] - trace.bounds[0]);
          add(svg, "rect", { x: width - frame.right + 10, y: frame.top + tall() * (1 - (i + 1) / 24), width: 11, height: tall() / 24 + 0.5, fill: shade(value, trace.bounds) });
        }
        for (const share of [0, 0.5, 1]) {
          const value = trace.bounds[0] + share * (trace.bounds[1] - trace.bounds[0]);
          add(svg, "text", { x: width - frame.right + 26, y: frame.top + 9 + (1 - share) * (tall() - 10) }, `${Number(value.toPrecision(2))}${trace.unit ? ` ${trace.unit}` : ""}`);
        }
      } else if (trace.kind === "bars") {
        const each = wide() / trace.x.length, w = (0.8 * each) / bars.length;
        trace.y.forEach((value, i) => {
          if (!known(value)) return;
          const x = toX(i) - 0.4 * each + w * bars.indexOf(trace), y = toY(value);
          add(area, "rect", { x, y, width: w, height: Math.max(0, toY(0) - y), fill: color(trace.color) });
          points.push([x + w / 2, y, `${trace.name}\n${trace.x[i]}: ${format(value)}`]);
        });
      } else {
        if (trace.kind === "line") add(area, "path", { class: "curve", d: path(at), stroke: color(trace.color), "stroke-dasharray": trace.dash });
        for (const point of at.filter(Boolean)) {
          const [x, y, i] = point, error = trace.errors && trace.errors[i];
          if (error > 0) { // on a logarithmic axis by a factor up and down: a difference would plunge
            const value = trace.y[i], factor = 1 + error / value;
            const ends = specs.y.log ? [value * factor, value / factor] : [value + error, value - error];
            const [top, bottom] = ends.map((end) => toY(yAxis.read(end)));
            add(area, "path", { class: "error", stroke: color(trace.color), d: `M${x - 3},${top}h6M${x},${top}V${bottom}M${x - 3},${bottom}h6` });
          }
          if (trace.sign) mark(area, trace.sign, x, y, trace.size || 4, trace.open ? { class: "open", stroke: color(trace.color) } : { class: "mark", fill: color(trace.color) });
          points.push([x, y, told(i)]);
        }
      }
    }
    listen(place, svg, points, { state, frame, wide: wide(), tall: tall(), xAxis, yAxis, free: !named, again: () => draw(place, traces, figure) });
    legend(place, traces, hidden, () => draw(place, traces, figure));
  }

  function legend(place, traces, hidden, again) {
    const entries = traces.filter((trace) => trace.name && trace.legend !== false && ["line", "marks", "bars"].includes(trace.kind) && trace.x.length);
    let list = place.parentElement.querySelector(".legend");
    if (!list) { list = document.createElement("div"); list.className = "legend"; place.after(list); }
    list.replaceChildren();
    if (entries.length < 2) return;
    for (const trace of entries) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden.has(trace.name)));
      const key = add(button, "svg", { width: 30, height: 12, "aria-hidden": "true" });
      if (trace.kind === "line") add(key, "path", { class: "curve", d: "M1,6H29", stroke: color(trace.color), "stroke-dasharray": trace.dash });
      if (trace.kind === "bars") add(key, "rect", { x: 9, y: 1, width: 12, height: 10, fill: color(trace.color) });
      if (trace.sign) mark(key, trace.sign, 15, 6, 4, trace.open ? { class: "open", stroke: color(trace.color) } : { fill: color(trace.color) });
      button.append(trace.name);
      button.addEventListener("click", () => {
        if (!hidden.delete(trace.name)) hidden.add(trace.name);
        again();
      });
      list.append(button);
    }
  }

  // What is near the pointer is named; a frame drawn with the mouse becomes the whole figure.
  function listen(place, svg, points, view) {
    const tip = document.createElement("div");
    tip.className = "tip";
    place.append(tip);
    const { frame } = view;
    let from = null, box = null;
    const where = (event) => {
      const area = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / area.width;
      return [(event.clientX - area.left) * scale, (event.clientY - area.top) * scale];
    };
    const name = ([x, y]) => {
      let best = null, least = Infinity;
      for (const point of points) {
        const far = Math.hypot(point[0] - x, point[1] - y);
        if (far < least && far < (point[3] || NEAR)) { best = point; least = far; }
      }
      tip.hidden = !best;
      if (!best) return;
      tip.textContent = best[2];
      const share = best[0] / svg.viewBox.baseVal.width;
      tip.style.left = `${100 * share}%`;
      tip.style.top = `${best[1] - 10}px`;
      tip.style.translate = `${-100 * share}% -100%`;
    };
    tip.hidden = true;
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = where(event);
      if (!from) { name([x, y]); return; }
      box = box || add(svg, "rect", { class: "frame" });
      const sides = { x: Math.min(x, from[0]), y: Math.min(y, from[1]), width: Math.abs(x - from[0]), height: Math.abs(y - from[1]) };
      for (const [side, value] of Object.entries(sides)) box.setAttribute(side, value);
    });
    svg.addEventListener("pointerdown", (event) => {
      name(where(event));
      if (!view.free || event.pointerType !== "mouse") return; // fingers scroll
      svg.setPointerCapture(event.pointerId);
      from = where(event);
    });
    svg.addEventListener("pointerup", (event) => {
      const start = from, end = where(event);
      from = null;
      if (box) box.remove();
      box = null;
      if (!start || Math.min(Math.abs(end[0] - start[0]), Math.abs(end[1] - start[1])) < 8) return;
      const pick = (axis, a, b) => [a, b].map((share) => axis.low + share * (axis.high - axis.low)).sort((p, q) => p - q);
      view.state.zoom = {
        x: pick(view.xAxis, (start[0] - frame.left) / view.wide, (end[0] - frame.left) / view.wide),
        y: pick(view.yAxis, 1 - (start[1] - frame.top) / view.tall, 1 - (end[1] - frame.top) / view.tall),
      };
      view.again();
    });
    svg.addEventListener("dblclick", () => { view.state.zoom = {}; view.again(); });
  }

  return { draw, add, canvas, mark, mix };
})();
