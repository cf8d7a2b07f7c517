"use strict";
// Everything on the page works without this: it adds copying, filling in, and the mark of the chosen client.
const all = (selector) => document.querySelectorAll(selector);
const said = document.getElementById("said");

function selected(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

async function copy(element) {
  // Only a page from https or localhost may write to the clipboard in the modern way.
  if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent);
  selected(element);
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
      selected(source);
      button.textContent = said.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
  });
}

for (const element of all(".scripted")) element.hidden = false;
for (const element of all(".unscripted")) element.hidden = true;

// What these characters spell is the same inside any language's quotes, and outside them too.
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
