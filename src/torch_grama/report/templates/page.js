"use strict";
// Draws the figures, switches the theme, sorts the tables. The data is in the element "data".
const grama = (() => {
  const content = JSON.parse(document.getElementById("data").textContent);
  // Okabe and Ito's colours, in an order that stands out from the paper of each theme
  const themes = {
    light: {
      palette: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"],
      ink: "#1c2430", muted: "#7b8797", grid: "#e8ebef", panel: "#ffffff", middle: "#f7f7f7",
    },
    dark: {
      palette: ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#e8ecf1"],
      ink: "#e8ecf1", muted: "#93a0b1", grid: "#2a323e", panel: "#1a2029", middle: "#262d38",
    },
  };
  const settings = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "resetScale2d"]] };
  const drawn = new Map(); // identifier of a figure -> function that draws it again
  let printing = false;

  function name() {
    if (printing) return "light";
    const chosen = document.documentElement.dataset.theme;
    if (chosen === "light" || chosen === "dark") return chosen;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  const theme = () => themes[name()];

  function paint(value) { // tokens to colours
    if (Array.isArray(value)) return value.map(paint);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item)]));
    }
    if (typeof value !== "string" || value[0] !== "@") return value;
    const colors = theme();
    if (value === "@muted") return colors.muted;
    if (value === "@diverging") return [[0, "#0072B2"], [0.5, colors.middle], [1, "#D55E00"]];
    if (value === "@sequential") return name() === "dark" ? "Cividis" : [[0, "#fdfdfb"], [0.5, "#7db5d8"], [1, "#004a80"]];
    const [token, alpha] = value.split("/");
    const color = colors.palette[Number(token.slice(1))];
    if (color === undefined) return value;
    return alpha ? color + Math.round(Number(alpha) * 255).toString(16).padStart(2, "0") : color;
  }

  function layout(extra) {
    const colors = theme();
    const axis = { gridcolor: colors.grid, zerolinecolor: colors.muted, linecolor: colors.muted, zeroline: false, automargin: true };
    const full = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      font: { color: colors.ink, size: 12.5, family: "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif" },
      hovermode: "closest",
      legend: { orientation: "h", y: -0.2, yanchor: "top", x: 0, traceorder: "normal", bgcolor: "rgba(0,0,0,0)" },
      hoverlabel: { bgcolor: colors.panel, bordercolor: colors.muted, font: { color: colors.ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.muted, activecolor: colors.ink },
      ...paint(extra),
    };
    full.margin = { l: 58, r: 14, t: 28, b: 46, ...extra.margin };
    full.xaxis = { ...axis, ...full.xaxis };
    full.yaxis = { ...axis, ...full.yaxis };
    return full;
  }

  function drawFigure(id) {
    const figure = content.figures[id];
    const place = document.getElementById(id);
    const chooser = document.querySelector(`[data-views="${id}"]`);
    const fixed = figure.views.length && chooser && chooser.type === "range" ? figure.data.slice(0, 1) : [];
    const view = figure.views.length && chooser ? figure.views[Number(chooser.value)] : null;
    const data = view ? [...fixed, ...view.data] : figure.data;
    const whole = layout(figure.layout);
    if (data.filter((trace) => trace.showlegend !== false).length < 2) whole.showlegend = false;
    return Plotly.react(place, paint(data), whole, settings);
  }

  function watchViews(id) {
    const chooser = document.querySelector(`[data-views="${id}"]`);
    if (!chooser) return;
    const label = document.querySelector(`[data-label="${id}"]`);
    chooser.addEventListener("input", () => {
      if (label) {
        label.textContent = content.figures[id].views[Number(chooser.value)].label;
        chooser.setAttribute("aria-valuetext", label.textContent);
      }
      drawFigure(id);
    });
    const button = document.querySelector(`[data-play="${id}"]`);
    if (button) play(button, chooser, 120);
  }

  // moves a slider to its end, from the start if it is there
  function play(button, slider, pause) {
    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; button.textContent = "▶"; };
    button.addEventListener("click", () => {
      if (timer) { stop(); return; }
      if (slider.value === slider.max) slider.value = slider.min;
      slider.dispatchEvent(new Event("input"));
      button.textContent = "❚❚";
      timer = setInterval(() => {
        if (Number(slider.value) >= Number(slider.max)) { stop(); return; }
        slider.value = String(Number(slider.value) + 1);
        slider.dispatchEvent(new Event("input"));
      }, pause);
    });
  }

  // figures are drawn when they come near the window, and all of them before printing
  const waiting = new Map();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawNow(entry.target.id);
  }, { rootMargin: "600px" });
  function drawNow(id) {
    const draw = waiting.get(id);
    if (!draw) return;
    waiting.delete(id);
    observer.unobserve(document.getElementById(id));
    drawn.set(id, draw);
    draw();
  }
  function register(id, draw) {
    waiting.set(id, draw);
    observer.observe(document.getElementById(id));
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null); // the unknown last
          const order = typeof a === "number" ? a - b : a.localeCompare(b);
          return up ? order : -order;
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
  function key(cell) {
    if (!("value" in cell.dataset)) return cell.textContent.trim().toLowerCase();
    const number = Number(cell.dataset.value);
    return cell.dataset.value === "" || Number.isNaN(number) ? null : number;
  }

  function redraw() { for (const draw of drawn.values()) draw(); }

  function themeSwitch() {
    const button = document.getElementById("theme");
    const words = ["system", "light", "dark"];
    let chosen = "system";
    try { chosen = localStorage.getItem("grama-theme") || "system"; } catch { /* no storage from disk */ }
    const apply = () => {
      if (chosen === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
      button.textContent = `Theme: ${chosen}`;
    };
    if (!words.includes(chosen)) chosen = "system";
    apply();
    button.addEventListener("click", () => {
      chosen = words[(words.indexOf(chosen) + 1) % words.length];
      try { localStorage.setItem("grama-theme", chosen); } catch { /* likewise */ }
      apply();
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  themeSwitch();
  for (const id of Object.keys(content.figures)) {
    register(id, () => drawFigure(id));
    watchViews(id);
  }
  document.querySelectorAll("table.sortable").forEach(sortable);
  // a long table opens where the runs of this page stand
  document.querySelectorAll(".scroll.tall").forEach((box) => {
    const own = box.querySelector("tr.ours");
    if (own) box.scrollTop = own.offsetTop - box.clientHeight / 2;
  });
  addEventListener("beforeprint", () => {
    printing = true;
    document.querySelectorAll("details").forEach((item) => { item.open = true; });
    redraw();  // first: what is drawn below has the printed colours already
    [...waiting.keys()].forEach(drawNow);
  });
  addEventListener("afterprint", () => { printing = false; redraw(); });
  return { content, register, layout, paint, theme, play, settings };
})();
