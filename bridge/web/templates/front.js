"use strict";
// The page works without this script. It adds copy buttons, fills in key and model, and marks the selected client.
const all = (selector) => document.querySelectorAll(selector);
const said = document.getElementById("said");

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

async function copy(element) {
  // Browsers offer navigator.clipboard only on https and localhost.
  if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent);
  select(element);
  if (!document.execCommand("copy")) throw new Error("refused");
}

for (const button of all("button.copy")) {
  const source = button.dataset.copies
    ? document.getElementById(button.dataset.copies)
    : button.closest("figure").querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await copy(source);
      button.textContent = said.textContent = "Copied";
    } catch {
      select(source);
      button.textContent = said.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
  });
}

for (const element of all(".scripted")) element.hidden = false;
for (const element of all(".unscripted")) element.hidden = true;

// These characters need no escaping in any of the languages, inside and outside quotes.
const plain = /^[A-Za-z0-9._:\/-]+$/;

for (const name of ["key", "model"]) {
  const field = document.getElementById(name);
  const places = all(`[data-fill="${name}"]`);
  const usual = places[0].textContent;
  field.hidden = false;
  field.addEventListener("input", () => {
    const value = field.value.trim();
    const good = plain.test(value);
    field.setAttribute("aria-invalid", String(Boolean(value) && !good));
    for (const place of places) place.textContent = good ? value : usual;
  });
}

function mark() {
  const shown = [...all(".client")].find((client) => getComputedStyle(client).display !== "none");
  for (const link of all("nav a")) {
    if (shown && link.hash === `#${shown.id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

addEventListener("hashchange", mark);
mark();
