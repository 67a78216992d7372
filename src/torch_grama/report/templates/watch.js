"use strict";
// Renews the list every few seconds, while it is looked at and nothing in it has the focus.
(() => {
  const list = document.getElementById("list");
  const fresh = document.getElementById("fresh");
  async function renew() {
    if (document.hidden || list.contains(document.activeElement)) return;
    try {
      const answer = await fetch("/list", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      const chosen = new Set([...list.querySelectorAll("input:checked")].map((box) => box.value));
      list.innerHTML = text; // made by the server, which escapes every value
      for (const box of list.querySelectorAll("input")) box.checked = chosen.has(box.value);
      fresh.textContent = "up to date";
    } catch {
      fresh.textContent = "the server does not answer";
    }
  }
  setInterval(renew, 3000);
})();
