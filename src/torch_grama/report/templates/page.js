"use strict";
// Draws the figures, switches the theme, sorts the tables. The data is in the element "data".
const grama = (() => {
  const content = JSON.parse(document.getElementById("data").textContent);
  const drawing = new Map(); // place of a figure -> function that draws it
  const sizes = new ResizeObserver((entries) => { for (const entry of entries) drawing.get(entry.target)(); });
  function register(id, draw) {
    const place = document.getElementById(id);
    drawing.set(place, draw);
    sizes.observe(place); // which tells the first size too
  }

  function drawFigure(id) {
    const figure = content.figures[id];
    const chooser = document.querySelector(`[data-views="${id}"]`);
    const view = chooser ? figure.views[Number(chooser.value)].data : figure.data;
    const guides = chooser ? figure.data.filter((trace) => trace.kind === "guide") : [];
    chart.draw(document.getElementById(id), [...guides, ...view], figure);
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
    });
  }

  themeSwitch();
  for (const id of Object.keys(content.figures)) {
    register(id, () => drawFigure(id));
    watchViews(id);
  }
  document.querySelectorAll("table.sortable").forEach(sortable);
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) target.classList.toggle("wide", target.scrollWidth > target.clientWidth);
  });
  document.querySelectorAll(".scroll").forEach((box) => widths.observe(box));
  // a long table opens where the runs of this page stand
  document.querySelectorAll(".scroll.tall").forEach((box) => {
    const own = box.querySelector("tr.ours");
    if (own) box.scrollTop = own.offsetTop - box.clientHeight / 2;
  });
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((item) => { item.open = true; });
  });
  return { content, register, play };
})();
