// Pointer and keyboard: dragging boundaries, selecting, renaming, and what every key does.
import { $, make } from "./basics.js";
import { at, limits, moveBoundary, nearestBoundary } from "./boundaries.js";

const REACH = 5;  // pixels

export class Hands {
  constructor(desk, stage, actions) {
    Object.assign(this, { desk, stage, actions });
    const panel = $("panel");
    panel.addEventListener("pointerdown", event => this.down(event));
    panel.addEventListener("pointermove", event => this.hover(event));
    panel.addEventListener("pointerleave", () => this.mark(0));
    panel.addEventListener("wheel", event => this.wheel(event), { passive: false });
    $("overview").addEventListener("pointerdown", event => this.jump(event));
    document.addEventListener("keydown", event => this.key(event));
  }

  near(event) {  // the boundary under the pointer, 0 if none: in the pictures and in both tiers
    if (!event.target.closest(".wave, .spectrum, .tier") || event.target.closest("span, input")) return 0;
    const { desk, stage } = this, box = $("wave").getBoundingClientRect(), inside = event.clientX - box.left;
    if (inside < -REACH || inside > box.width + REACH) return 0;
    const within = REACH / box.width * (stage.view.to - stage.view.from);
    const exact = stage.view.from + inside / box.width * (stage.view.to - stage.view.from);
    const k = nearestBoundary(desk.phones, exact, within);
    if (!k || !event.target.closest(".tier.words")) return k;
    return desk.words.some(w => Math.abs(w[0] - desk.phones[k][0]) < 1e-6 || Math.abs(w[1] - desk.phones[k][0]) < 1e-6) ? k : 0;
  }

  mark(k) {
    if (this.desk.hovered === k) return;
    this.desk.hovered = k;
    $("panel").classList.toggle("grab", k > 0);
    this.stage.redraw();
  }
  hover(event) { if (!this.desk.held && !event.buttons) this.mark(this.near(event)); }

  down(event) {
    if (event.button !== 0 || !this.desk.phones.length || event.target.closest(".overview, input")) return;
    const k = this.near(event);
    if (k) this.drag(event, k);
    else if (event.target.closest(".wave, .spectrum") && !event.target.closest("span")) this.select(event);
  }

  follow(event, moved, done) {  // until the pointer is let go
    const target = $("panel");
    target.setPointerCapture(event.pointerId);
    const move = e => moved(e), end = e => {
      target.removeEventListener("pointermove", move);
      target.removeEventListener("pointerup", end);
      target.removeEventListener("pointercancel", end);
      done(e);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", end);
    target.addEventListener("pointercancel", end);
  }

  drag(event, k) {
    const { desk, stage } = this, start = desk.phones[k][0], grip = stage.time(event.clientX) - start;
    event.preventDefault();
    desk.held = k;
    $("panel").focus({ preventScroll: true });
    this.actions.pick("phones", k, false);
    desk.selection = null;
    this.follow(event, e => {
      const now = moveBoundary(desk.phones, desk.words, k, stage.time(e.clientX) - grip);
      $("status").textContent = `${desk.phones[k - 1][2]} | ${desk.phones[k][2]}   ${now.toFixed(3)} s · ${Math.round(1000 * (now - start))} ms from where it was`;
      stage.redraw();
    }, e => {
      const now = desk.phones[k][0];
      desk.held = 0;
      this.mark(0);
      if (e.type === "pointercancel" || Math.abs(now - start) < 1e-6) { moveBoundary(desk.phones, desk.words, k, start); stage.redraw(); }
      else this.commit(k, start, now);
    });
  }

  commit(k, start, now) {  // the move is shown already
    const { desk } = this;
    desk.edit({ op: "move", boundary: k, time: now }, () => moveBoundary(desk.phones, desk.words, k, start));
  }

  nudge(by) {
    const { desk, stage } = this, k = desk.picked?.tier === "phones" ? desk.picked.index : 0;
    if (!k) return;
    const start = desk.phones[k][0], [low, high] = limits(desk.phones, k), now = Math.min(high, Math.max(low, start + by));
    if (Math.abs(now - start) < 1e-6) return;
    desk.edit({ op: "move", boundary: k, time: now });
    stage.redraw();
  }

  select(event) {
    const { desk, stage } = this, anchor = stage.time(event.clientX), x = event.clientX;
    let dragged = false;
    this.follow(event, e => {
      dragged = dragged || Math.abs(e.clientX - x) > 4;
      if (!dragged) return;
      const here = stage.time(e.clientX);
      desk.selection = [Math.min(anchor, here), Math.max(anchor, here)];
      $("status").textContent = `selection ${desk.selection[0].toFixed(3)} – ${desk.selection[1].toFixed(3)} s · ${Math.round(1000 * (desk.selection[1] - desk.selection[0]))} ms`;
      stage.redraw();
    }, () => {
      if (dragged) { desk.cursor = null; return this.actions.play(...desk.selection); }
      const k = at(desk.phones, anchor);
      if (k >= 0) this.actions.pick("phones", k, true);
      desk.cursor = anchor;
      stage.redraw();
    });
  }

  jump(event) {
    const { stage, desk } = this, box = $("overview").getBoundingClientRect();
    const go = e => {
      const t = (e.clientX - box.left) / box.width * desk.duration, half = (stage.view.to - stage.view.from) / 2;
      stage.show(t - half, t + half);
    };
    go(event);
    this.follow(event, go, () => {});
  }

  wheel(event) {
    const { stage } = this, across = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) stage.zoom(Math.exp(event.deltaY / 300), stage.time(event.clientX));
    else if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) stage.move(across / stage.width);
    else stage.move(event.deltaY / stage.width);
    event.preventDefault();
  }

  rename(tier, index) {  // an input in the place of the label
    const { desk, stage } = this, row = desk[tier][index];
    if (!row) return;
    stage.reveal(row[0], row[1]);
    const input = make("input"), left = Math.max(0, stage.x(row[0])), width = Math.max(64, stage.x(row[1]) - left);
    document.querySelector("input.label")?.remove();
    input.className = "label";
    input.value = row[2];
    input.maxLength = 200;
    input.spellcheck = false;
    input.setAttribute("aria-label", `New label of ${row[2] || "silence"}`);
    input.style.left = Math.min(left, stage.width - width) + "px";
    input.style.width = width + "px";
    let ended = false;
    const end = keep => {
      if (ended) return;
      ended = true;
      input.remove();
      $("panel").focus({ preventScroll: true });
      if (keep && input.value.trim() !== row[2]) desk.edit({ op: "rename", tier, index, label: input.value });
    };
    input.addEventListener("keydown", event => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
      event.stopPropagation();
    });
    input.addEventListener("blur", () => end(true));
    $(tier).append(input);
    input.focus();
    input.select();
  }

  key(event) {
    if (event.target.closest?.("input, select, textarea, dialog[open]")) return;
    const name = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "") + (event.shiftKey ? "Shift+" : "") +
      (event.key.length === 1 ? event.key.toUpperCase() : event.key);
    const act = this.actions.keys[name] || (event.key === "?" ? this.actions.keys["?"] : null);
    if (!act) return;
    if ((event.key === " " || event.key === "Enter") && event.target.closest?.("button") && !event.target.closest("#panel")) return;  // it presses the button
    event.preventDefault();
    act();
  }
}
