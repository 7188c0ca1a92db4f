// Words and phones as buttons below the pictures; only those in sight exist.
import { $, make, shade } from "./basics.js";
import { at } from "./boundaries.js";

const pen = document.createElement("canvas").getContext("2d"), widths = new Map();
function fits(label, room) {
  if (!widths.has(label)) {
    pen.font = "500 15px " + getComputedStyle(document.body).fontFamily;
    widths.set(label, pen.measureText(label).width + 5);
  }
  return widths.get(label) <= room;
}

export class Tier {
  constructor(name, stage, state, picked, renamed) {
    Object.assign(this, { name, stage, state });
    this.box = $(name);
    this.cells = new Map();
    stage.followers.push(() => this.draw());
    this.box.addEventListener("click", event => {
      const cell = event.target.closest("button");
      if (cell) picked(name, Number(cell.dataset.index), event.detail > 0);
    });
    this.box.addEventListener("dblclick", event => {
      const cell = event.target.closest("button");
      if (cell) renamed(name, Number(cell.dataset.index));
    });
  }

  get rows() { return this.state[this.name]; }

  draw() {
    const { stage, rows, cells } = this, { view, width } = stage, seen = new Set();
    let drawn = -Infinity;  // what would be narrower than two pixels is left out
    const first = Math.max(0, at(rows, view.from)), dense = at(rows, view.to) - first > width / 4;
    this.box.dataset.note = dense ? `zoom in to see the ${this.name}` : "";
    if (!dense) for (let i = first; i < rows.length && rows[i][0] < view.to; i++) {
      const left = Math.max(0, stage.x(rows[i][0])), right = Math.min(width, stage.x(rows[i][1]));
      if (right <= 0 || right < drawn + 2) continue;
      drawn = right;
      seen.add(i);
      this.place(i, rows[i], left, right);
    }
    for (const [index, cell] of cells) if (!seen.has(index)) { cell.remove(); cells.delete(index); }
  }

  place(index, row, left, right) {
    let cell = this.cells.get(index);
    if (!cell) {
      cell = make("button");
      cell.type = "button";
      cell.dataset.index = index;
      cell.tabIndex = -1;
      this.cells.set(index, cell);
      this.box.append(cell);
    }
    const [start, end, label, sure] = row, room = right - left, silent = this.state.isSilence(label);
    cell.style.transform = `translateX(${left}px)`;
    cell.style.width = room + "px";
    const text = fits(label, 1.35 * room) ? label : "";
    if (cell.textContent !== text) cell.textContent = text;
    const picked = this.state.picked && this.state.picked.tier === this.name && this.state.picked.index === index;
    const kind = (fits(label, room) ? "" : "tight ") + (silent ? "silent " : "") + (picked ? "picked " : "") +
      (this.name === "phones" && index > 0 ? sure === null ? "hand" : "rated" : "");
    if (cell.className !== kind) cell.className = kind;
    if (this.name === "phones") cell.style.setProperty("--shade", shade(sure));
    const described = describe(this.name, row, silent);
    if (cell.title !== described) { cell.title = described; cell.setAttribute("aria-label", described); }
  }
}

export function describe(tier, [start, end, label, sure], silent) {
  const parts = [`${label || "(silence)"}   ${start.toFixed(3)} – ${end.toFixed(3)} s`, `${Math.round(1000 * (end - start))} ms`];
  if (tier === "phones" && start > 0) parts.push(sure === null ? "start set by hand" : `confidence of its start ${sure.toFixed(2)}`);
  return parts.join(" · ");
}
