// The task under way (aligning or learning), and what learning moved.
import { $, ask, make } from "./basics.js";

export class Learning {
  constructor(refresh, say, resort) {
    Object.assign(this, { refresh, say, resort });
    this.task = null;
    this.shown = 0;
    this.timer = null;
    $("learn").onclick = () => this.start();
    $("cancel").onclick = () => ask("/api/cancel", {}).catch(error => say(error.message));
    $("results").onclick = () => $("moved").showModal();
  }

  async start() {
    try { this.take(await ask("/api/learn", {})); } catch (error) { this.say(error.message); }
  }

  enable(corrected) {
    this.corrected = corrected;
    $("learn").disabled = !corrected || Boolean(this.task?.is_running);
    $("hint").textContent = corrected ? `${corrected} corrected recording${corrected === 1 ? "" : "s"} to learn from; the rest is aligned anew.`
      : "Correct a recording first: drag a boundary, or mark it as checked.";
  }

  take(task) {  // called with every answer that tells of the task
    const before = this.task;
    this.task = task;
    $("working").hidden = !task.is_running;
    $("progress").value = task.share;
    $("stage").textContent = task.is_running ? task.stage : "";
    this.enable(this.corrected || 0);
    if (before && task.changes !== before.changes) this.later();
    if (task.is_running) { clearTimeout(this.timer); this.timer = setTimeout(() => this.poll(), 400); }
    else if (before?.is_running && before.number === task.number) this.finished(task);
    if (task.kind === "learn") this.table(task);
  }

  async later() {  // a long list is not asked for all the time
    if (this.refreshing) return;
    this.refreshing = true;
    const began = performance.now();
    await this.refresh();
    setTimeout(() => { this.refreshing = false; }, Math.max(300, 10 * (performance.now() - began)));
  }

  async poll() {
    try { this.take(await ask("/api/task")); } catch (error) { this.say(error.message); this.timer = setTimeout(() => this.poll(), 3000); }
  }

  finished(task) {
    if (task.kind === "learn") this.resort();
    this.refresh();
    if (task.problem) this.say(task.kind === "learn" ? `Learning: ${task.problem}` : `Aligning: ${task.problem}`);
    if (task.kind === "learn" && !task.problem) $("moved").showModal();
  }

  table(task) {
    $("results").hidden = task.is_running || !task.status;
    $("gain").textContent = task.status || "";
    const rows = task.moved.map(m => {
      const tr = make("tr"), ms = value => value === null ? "other phones" : value.toFixed(1) + " ms";
      tr.append(make("td", m.name), make("td", m.n_moved), make("td", m.n_boundaries), make("td", ms(m.mean_ms)), make("td", ms(m.largest_ms)));
      return tr;
    });
    if (!rows.length) { const tr = make("tr"), td = make("td", "no recording was aligned anew"); td.colSpan = 5; tr.append(td); rows.push(tr); }
    $("moved").querySelector("tbody").replaceChildren(...rows);
  }
}
