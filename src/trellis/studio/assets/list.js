// The list of recordings: the most doubtful first, with what is known of each.
import { $, make, seconds, shade } from "./basics.js";

const STATES = { waiting: "to be aligned", untouched: "aligned", corrected: "corrected", given: "from its TextGrid", failed: "not aligned" };
const MOST = 400;  // in the list at once
const RANK = { failed: 1, waiting: 2, untouched: 0, corrected: 3, given: 3 };

export class List {
  constructor(open) {
    this.open = open;
    this.all = [];
    this.current = null;
    this.items = new Map();
    $("search").addEventListener("input", () => this.draw());
    $("order").addEventListener("change", () => { this.resort(); this.draw(); });
    $("list").addEventListener("click", event => {
      const item = event.target.closest("button");
      if (item) this.open(Number(item.dataset.id));
    });
  }

  take(recordings) {
    const ranks = new Map(this.all.map(r => [r.id, r.rank]));
    this.all = recordings.map(r => ({ ...r, rank: ranks.get(r.id) }));
    this.draw();
  }

  // What is being corrected keeps its place: the next recording is the one that was next before.
  update(id, summary) {
    const r = this.all.find(r => r.id === id), { state, doubt } = r;
    Object.assign(r, summary, { rank: { state, doubt, ...r.rank } });
    this.draw();
  }
  resort() { for (const r of this.all) delete r.rank; }

  sorted() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), order = $("order").value;
    const shown = this.all.filter(r => words.every(w => (r.name + " " + STATES[r.state] + " " + r.flags.join(" ")).toLowerCase().includes(w)));
    const byName = (a, b) => a.name < b.name ? -1 : 1;
    const rank = r => (order === "state" ? -1 : 1) * RANK[(r.rank || r).state], doubt = r => (r.rank || r).doubt ?? -1;
    if (order === "name") return shown.sort(byName);
    return shown.sort((a, b) => rank(a) - rank(b) || doubt(b) - doubt(a) || b.flags.length - a.flags.length || byName(a, b));
  }

  neighbour(step) {
    const shown = this.sorted(), here = shown.findIndex(r => r.id === this.current);
    return shown[Math.min(shown.length - 1, Math.max(0, here + step))]?.id;
  }

  draw() {
    const shown = this.sorted(), corrected = this.all.filter(r => r.state === "corrected" || r.state === "given").length;
    $("counts").textContent = `${shown.length === this.all.length ? "" : shown.length + " of "}${this.all.length} recording${this.all.length === 1 ? "" : "s"} · ${corrected} corrected`;
    $("list").replaceChildren(...shown.slice(0, MOST).map(r => this.item(r)));
    if (shown.length > MOST) $("list").append(make("li", `and ${shown.length - MOST} more: search to see them`, "more"));
    if (this.current !== null) $("list").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  item(r) {
    const li = make("li"), button = make("button"), top = make("div", undefined, "top"), below = make("div", undefined, "below");
    button.type = "button";
    button.dataset.id = r.id;
    button.className = r.state;
    if (r.id === this.current) button.setAttribute("aria-current", "true");
    top.append(make("span", r.name, "name"), make("span", seconds(r.duration), "long"));
    const state = make("span", STATES[r.state] + (r.state === "corrected" ? ` · ${r.n_edits} edit${r.n_edits === 1 ? "" : "s"}` : ""), "state");
    below.append(state);
    if (r.doubt !== null && r.state === "untouched") {
      const bar = make("span", undefined, "doubt"), fill = make("i");
      fill.style.width = Math.max(4, Math.round(100 * r.doubt)) + "%";
      fill.style.background = shade(1 - r.doubt);
      bar.title = bar.ariaLabel = `doubt ${r.doubt.toFixed(2)}: the least sure start has confidence ${r.least.toFixed(2)}`;
      bar.role = "img";
      bar.append(fill);
      below.append(bar);
    }
    button.append(top, below);
    for (const flag of [...r.flags, ...(r.problem ? [r.problem] : [])]) button.append(make("small", flag, "flag"));
    li.append(button);
    return li;
  }
}
