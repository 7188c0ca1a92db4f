// The page of a network: click states to observe them, choose two variables to see what joins them.

const network = JSON.parse(document.getElementById("data").textContent);
// a name inside a sentence: one that reads from right to left must not turn what follows it around
const isolated = name => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name);
const names = network.names.map(isolated);
const separate = separationRules({ ...network, names });
const exact = network.tables === null ? null : exactInference(network);
// the document has them in the order of the edges, for the keyboard; here they stand by their numbers
const nodes = [...document.querySelectorAll(".node")].sort((a, b) => a.dataset.variable - b.dataset.variable);
const buttons = nodes.map(node => [...node.querySelectorAll("button")]);
const edges = [...document.querySelectorAll("#drawing path[data-head]")];
const said = document.getElementById("evidence"), clear = document.getElementById("clear");
const ends = [document.getElementById("x"), document.getElementById("y")];
const verdict = document.getElementById("verdict"), list = document.getElementById("paths");
const evidence = new Map();

// Large networks have answers for one observed state at a time, computed when the page was made.
function answers() {
  if (exact !== null) {
    const log = exact.logProbability(evidence);
    return { marginals: log === -Infinity ? null : exact.marginals(evidence), log };
  }
  if (evidence.size === 0) return { marginals: network.prior, log: 0 };
  const [[v, s]] = evidence, found = network.answers[v][s];
  return { marginals: found, log: Math.log(network.prior[v][s]) };
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.001 ? 3 : 1)} %`;
}

function showMarginals() {
  const { marginals, log } = answers();
  nodes.forEach((node, v) => {
    node.classList.toggle("observed", evidence.has(v));
    buttons[v].forEach((button, s) => {
      button.setAttribute("aria-pressed", String(evidence.get(v) === s));
      const share = marginals === null ? null : marginals[v][s];
      button.dataset.share = String(share);
      button.style.setProperty("--share", share ?? 0);
      button.querySelector("b").textContent = share === null ? "–" : percent(share);
    });
  });
  document.getElementById("drawing").classList.toggle("moved", evidence.size > 0);
  const all = [...evidence].map(([v, s]) => `${names[v]} = ${isolated(network.states[v][s])}`).join(", ");
  said.dataset.log = String(log);
  if (!evidence.size) said.textContent = "Nothing is observed. Click a state, or press Enter on it, to observe it.";
  else if (marginals === null) said.textContent = `Observed: ${all}. This is impossible: its probability is 0.`;
  else said.textContent = `Observed: ${all}. The probability of this is ${Math.exp(log).toPrecision(4)}.`;
}

function showSeparation() {
  const [x, y] = ends.map(end => (end.value === "" ? null : Number(end.value)));
  const observed = [...evidence.keys()].sort((a, b) => a - b);
  for (const part of [...edges, ...nodes]) part.classList.remove("open", "blocked", "end", "muted");
  list.replaceChildren();
  if (x === null || y === null) {
    verdict.textContent = "Choose two variables: the paths between them are coloured and explained.";
    return;
  }
  const clash = [x, y].find(v => evidence.has(v));
  if (x === y || clash !== undefined) {
    verdict.textContent = x === y
      ? "Choose two different variables."
      : `${names[clash]} is observed; clear it, or choose another variable.`;
    return;
  }
  const found = separate(x, y, observed), given = observed.map(v => names[v]).join(", ") || "nothing";
  verdict.textContent = `${names[x]} and ${names[y]} are ${found.separated ? "" : "not "}`
    + `d-separated given ${given}.${found.complete ? "" : ` There are more paths than these ${found.paths.length}.`}`
    + (found.paths.length ? "" : " No path joins them.");
  for (const part of [...edges, ...nodes]) part.classList.add("muted");
  // open paths over blocked ones, but a node that blocks some path shows it
  for (const one of [...found.paths].sort((a, b) => a.open - b.open)) {
    one.path.slice(1).forEach((w, i) => {
      const pair = [one.path[i], w];
      const edge = edges.find(e => pair.includes(Number(e.dataset.tail)) && pair.includes(Number(e.dataset.head)));
      edge.classList.remove("muted", "open", "blocked");
      edge.classList.add(one.open ? "open" : "blocked");
    });
    for (const node of one.nodes) {
      nodes[node.v].classList.remove("muted");
      if (node.open && !nodes[node.v].classList.contains("blocked")) nodes[node.v].classList.add("open");
      if (!node.open) { nodes[node.v].classList.remove("open"); nodes[node.v].classList.add("blocked"); }
    }
  }
  for (const v of [x, y]) { nodes[v].classList.remove("muted"); nodes[v].classList.add("end"); }
  for (const one of found.paths) {
    const item = document.createElement("li"), path = document.createElement("b"), why = document.createElement("span");
    item.className = one.open ? "open" : "blocked";
    path.textContent = one.text;
    why.textContent = one.why;
    item.append(path, why);
    list.append(item);
  }
}

function show() {
  showMarginals();
  showSeparation();
}

buttons.forEach((of, v) => of.forEach((button, s) => button.addEventListener("click", () => {
  const again = evidence.get(v) === s;
  if (exact === null) evidence.clear();
  if (again) evidence.delete(v); else evidence.set(v, s);
  show();
})));
clear.addEventListener("click", () => { evidence.clear(); show(); });
for (const end of ends) end.addEventListener("change", () => {
  showSeparation();
  reveal(ends.filter(one => one.value !== "").map(one => nodes[one.value]));
});

const drawing = document.getElementById("drawing"), board = drawing.parentElement, zoom = document.getElementById("zoom");
function fit() {
  const room = board.clientWidth / Number(drawing.dataset.width);
  const least = innerWidth < 600 ? 0.75 : 0.55;  // a finger needs larger buttons than a mouse
  zoom.value = String(Math.floor(100 * Math.max(least, Math.min(1, room))));
  drawing.style.zoom = `${zoom.value}%`;
}
// Scrolls the board, and not the page, to the middle of some nodes; both need not fit.
function reveal(some) {
  const boxes = some.map(node => node.getBoundingClientRect()), room = board.getBoundingClientRect();
  const middle = (low, high) => (Math.min(...boxes.map(b => b[low])) + Math.max(...boxes.map(b => b[high]))) / 2;
  if (!boxes.length) return;
  board.scrollLeft += middle("left", "right") - (room.left + room.right) / 2;
  board.scrollTop += middle("top", "bottom") - (room.top + room.bottom) / 2;
}
zoom.addEventListener("input", () => { drawing.style.zoom = `${zoom.value}%`; });
fit();
show();
if (edges.length) reveal([nodes[edges[0].dataset.tail]]);  // what stands alone may be far from the rest
