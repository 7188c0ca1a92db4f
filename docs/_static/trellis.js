// What the theme leaves without a name, for screen readers and for those who use no mouse.
"use strict";

const BOXES = "article.bd-article pre, article.bd-article .pst-scrollable-table-container";

// The heading above an element, without its link to itself.
function heading(element) {
  const above = element.closest("section")?.querySelector("h1, h2, h3, h4, h5");
  return above ? above.textContent.replace(/#$/, "").trim() : document.title;
}

// Only what is too wide needs to be reached by keyboard: elsewhere there is nothing to scroll.
function nameBoxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    const wide = box.scrollWidth > box.clientWidth;
    if (wide) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      const caption = box.querySelector("caption")?.textContent.trim();
      box.setAttribute("aria-label", caption || `${box.tagName === "PRE" ? "Code" : "Table"}: ${heading(box)}`);
    } else {
      box.removeAttribute("role");
      box.removeAttribute("aria-label");
    }
  }
}

function nameControls() {
  // voice control looks for what the button says, "Search Ctrl+K"; on a phone it shows no words
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.setAttribute("aria-label", button.textContent.replace(/\s+/g, " ").trim());
  }
  for (const summary of document.querySelectorAll("li > details > summary:has(.toctree-toggle)")) {
    const link = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", `Pages below ${link.textContent.trim()}`);
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a.internal")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
  for (const head of document.querySelectorAll("article.bd-article th")) {
    if (!head.textContent.trim()) head.replaceWith(document.createElement("td"));
  }
}

document.addEventListener("DOMContentLoaded", () => {
  nameControls();
  nameBoxes();
  document.fonts.ready.then(nameBoxes);
  addEventListener("resize", nameBoxes);
});
