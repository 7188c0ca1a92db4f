"use strict";
(() => {
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const samples = decode($("audio").textContent), rate = data.rate, length = data.duration;
const view = { from: 0, to: length > 8 ? 6 : length };
const contiguous = data.phones.every((p, k) => k === 0 || Math.abs(p[0] - data.phones[k - 1][1]) < SLACK);
let doubtful = data.phones.filter(p => p[3] !== null).sort((p, q) => p[3] - q[3]);  // the least sure start first
const moves = [];  // [boundary, where it was, its confidence]: the last one first to be taken back
let selection = null, picked = null, playing = null, doubt = -1, scheduled = false;

// --- sound -----------------------------------------------------------------------------------------------
function decode(text) {  // 16-bit mono WAV with a header of 44 bytes
  const raw = atob(text.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Int16Array(bytes.buffer, 44);
}

let context = null, buffer = null;
function play(from, to) {
  stop();
  if (!context) {
    context = new AudioContext();
    buffer = context.createBuffer(1, samples.length, rate);
    const channel = buffer.getChannelData(0);
    for (let i = 0; i < samples.length; i++) channel[i] = samples[i] / 32768;
  }
  context.resume();
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.start(0, from, to - from);
  playing = { source, from, to, began: context.currentTime };
  source.onended = () => { if (playing && playing.source === source) { playing = null; overlay(); } };
  follow();
}
function stop() {
  if (playing) { const { source } = playing; playing = null; source.stop(); overlay(); }
}
function follow() {
  if (playing) { overlay(); requestAnimationFrame(follow); }
}

// --- pictures --------------------------------------------------------------------------------------------
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
const x = (t, width) => (t - view.from) / (view.to - view.from) * width;

function canvas(id) {  // sized in device pixels, drawn in CSS pixels
  const c = $(id), box = c.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
  c.width = Math.max(1, Math.round(box.width * scale));
  c.height = Math.max(1, Math.round(box.height * scale));
  const g = c.getContext("2d");
  g.scale(scale, scale);
  return [g, box.width, box.height];
}

function ruler() {
  const [g, width, height] = canvas("ruler"), span = view.to - view.from;
  const step = [.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600].find(s => s / span * width > 75) || 1200;
  g.strokeStyle = colour("line");
  g.fillStyle = colour("dim");
  g.font = "11px system-ui, sans-serif";
  for (let k = Math.ceil(view.from / step - 1e-9); k * step <= view.to; k++) {
    const at = x(k * step, width);
    g.beginPath(); g.moveTo(at, height - 7); g.lineTo(at, height); g.stroke();
    const text = step < 1 ? (k * step).toFixed(step < .1 ? 2 : 1) : String(k * step);
    g.fillText(text + " s", Math.min(at + 4, width - 34), height - 9);
  }
}

function wave() {  // each column spans the least and the greatest of its samples
  const [g, width, height] = canvas("wave"), middle = height / 2;
  g.strokeStyle = colour("line");
  g.beginPath(); g.moveTo(0, middle); g.lineTo(width, middle); g.stroke();
  g.fillStyle = colour("wave");
  const tall = (middle - 6) / peak;
  for (let column = 0; column < width; column++) {
    const t = view.from + column / width * (view.to - view.from), u = t + (view.to - view.from) / width;
    const last = Math.min(samples.length - 1, Math.ceil(u * rate));
    let low = Infinity, high = -Infinity;
    for (let i = Math.max(0, Math.floor(t * rate)); i <= last; i++) {
      if (samples[i] < low) low = samples[i];
      if (samples[i] > high) high = samples[i];
    }
    if (low <= high) g.fillRect(column, middle - high * tall, 1, Math.max(1, (high - low) * tall));
  }
}
const peak = samples.reduce((most, s) => Math.max(most, Math.abs(s)), 1);

// A Gaussian window, about 5 ms wide at close view, as phoneticians look at formants, and wider where a column of
// the picture stands for more time. High frequencies are raised by 6 dB per octave.
const size = 512;
const turn = Array.from({ length: size / 2 }, (_, k) => [Math.cos(2 * Math.PI * k / size), -Math.sin(2 * Math.PI * k / size)]);
const re = new Float64Array(size), im = new Float64Array(size);
let reach = 0, shape = [];
function widen(step) {
  reach = Math.min(size / 2, Math.round(Math.max(.005, Math.min(2.5 * step, .016)) * rate));
  shape = Float64Array.from({ length: 2 * reach }, (_, i) => Math.exp(-12 * ((i + .5) / (2 * reach) - .5) ** 2) / reach);
}

function power(t) {  // decibels at size / 2 frequencies, around time t
  re.fill(0); im.fill(0);
  const first = Math.round(t * rate) - reach;
  for (let i = 0; i < 2 * reach; i++) {
    const n = first + i;
    if (n >= 1 && n < samples.length) re[reverse[i]] = shape[i] * (samples[n] - .97 * samples[n - 1]);
  }
  for (let half = 1; half < size; half *= 2)
    for (let k = 0; k < half; k++) {
      const [c, s] = turn[k * size / (2 * half)];
      for (let a = k; a < size; a += 2 * half) {
        const b = a + half, p = re[b] * c - im[b] * s, q = re[b] * s + im[b] * c;
        re[b] = re[a] - p; im[b] = im[a] - q;
        re[a] += p; im[a] += q;
      }
    }
  const result = new Float64Array(size / 2);
  for (let k = 0; k < size / 2; k++) result[k] = 10 * Math.log10(re[k] ** 2 + im[k] ** 2 + 1e-3);
  return result;
}
const bits = Math.log2(size);
const reverse = Array.from({ length: size }, (_, i) => parseInt(i.toString(2).padStart(bits, "0").split("").reverse().join(""), 2));
const loudest = (() => {
  widen(0);
  const found = Array.from({ length: 400 }, (_, i) => Math.max(...power(length * (i + .5) / 400)));
  return found.sort((a, b) => a - b)[395];
})();

function spectrum() {
  const [g, width, height] = canvas("spectrum"), columns = Math.min(1400, Math.max(1, Math.ceil(width))), rows = size / 2;
  const image = new ImageData(columns, rows), paper = rgb(colour("paper")), ink = rgb(colour("deep"));
  widen((view.to - view.from) / columns);
  for (let column = 0; column < columns; column++) {
    const decibels = power(view.from + (column + .5) / columns * (view.to - view.from));
    for (let k = 0; k < rows; k++) {
      const dark = Math.min(1, Math.max(0, (decibels[k] - loudest + 50) / 50)) ** 1.1;
      const at = 4 * ((rows - 1 - k) * columns + column);
      for (let c = 0; c < 3; c++) image.data[at + c] = paper[c] + (ink[c] - paper[c]) * dark;
      image.data[at + 3] = 255;
    }
  }
  const small = document.createElement("canvas");
  small.width = columns; small.height = rows;
  small.getContext("2d").putImageData(image, 0, 0);
  g.imageSmoothingQuality = "high";
  g.drawImage(small, 0, 0, width, height);
}

function overlay() {  // boundaries, selection and the place that is heard, over waveform and spectrogram
  const box = $("spectrum").getBoundingClientRect(), top = $("wave").getBoundingClientRect().top, c = $("overlay");
  c.style.width = box.width + "px";
  c.style.height = box.bottom - top + "px";
  const [g, width, height] = canvas("overlay");
  const line = (t, style, dash) => {
    if (t <= view.from || t >= view.to) return;
    g.strokeStyle = style; g.setLineDash(dash);
    g.beginPath(); g.moveTo(x(t, width), 0); g.lineTo(x(t, width), height); g.stroke();
  };
  if (selection) {
    g.fillStyle = colour("pick"); g.globalAlpha = .22;
    g.fillRect(x(selection[0], width), 0, x(selection[1], width) - x(selection[0], width), height);
  }
  if (data.phones.length / (length / (view.to - view.from)) < width / 5) {
    g.globalAlpha = .75;
    for (const [start] of data.reference ? data.reference.phones : []) line(start, colour("low"), [4, 4]);
    for (const phone of data.phones) line(phone[0], shade(phone[3]) || colour("wave"), []);
  }
  g.globalAlpha = 1;
  if (playing) {
    const now = playing.from + context.currentTime - playing.began;
    g.lineWidth = 2;
    line(Math.min(now, playing.to), colour("pick"), []);
  }
}

function shade(sure) {  // red, amber, teal at 0, 1/2, 1
  if (sure === null) return null;
  const half = sure < .5, share = Math.round(100 * (half ? 2 * sure : 2 * sure - 1));
  const [a, b] = half ? ["low", "middle"] : ["middle", "high"];
  const u = rgb(colour(a)), v = rgb(colour(b));
  return "rgb(" + u.map((c, i) => Math.round(c + (v[i] - c) * share / 100)).join(" ") + ")";
}

// --- tiers -----------------------------------------------------------------------------------------------
const tiers = [];
function tier(name, kind, intervals, origin) {
  if (!intervals.length) return;
  const row = document.createElement("div");
  row.className = "row tier " + kind;
  const caption = document.createElement("span"), cells = document.createElement("div");
  caption.textContent = name;
  cells.className = "cells";
  row.append(caption, cells);
  $("tiers").append(row);
  tiers.push({ kind, intervals, cells, origin });
}
if (data.words.length) tier("words", "words", data.words, "words");
tier("phones", "phones", data.phones, "phones");
if (data.reference) {
  tier("off by, ms", "error", data.errors, "errors");
  tier("phones of reference", "phones", data.reference.phones, "reference");
  tier("words of reference", "words", data.reference.words, "reference words");
}

function cells() {
  const held = document.activeElement.closest(".cells button")?.dataset;  // the cell that has the focus keeps it
  for (const { kind, intervals, cells, origin } of tiers) {
    const width = cells.getBoundingClientRect().width, made = [];
    let drawn = -Infinity;  // what would be narrower than a pixel and a half is left out
    for (const interval of intervals) {
      const left = x(interval[0], width), right = x(interval[1], width);
      if (right < 0 || left > width || right < drawn + 1.5) continue;
      if (kind === "error") {
        if (left < drawn + 26 || left < 0) continue;
        const mark = document.createElement("em");
        mark.textContent = (interval[2] > 0 ? "+" : "") + interval[2];
        mark.className = Math.abs(interval[2]) > 20 ? "far" : "";
        mark.style.left = Math.min(Math.max(left, 14), width - 14) + "px";
        made.push(mark);
        drawn = left;
        continue;
      }
      made.push(cell(interval, Math.max(left, 0), Math.min(right, width), origin));
      drawn = right;
    }
    cells.replaceChildren(...made);
    if (held?.tier === origin) made.find(one => one.dataset.start === held.start)?.focus({ preventScroll: true });
  }
}

const pen = document.createElement("canvas").getContext("2d"), widths = new Map();
function fits(label, room) {
  if (!widths.has(label)) {
    pen.font = "500 15px " + getComputedStyle(document.body).fontFamily;
    widths.set(label, pen.measureText(label).width + 3);
  }
  return widths.get(label) <= room;
}

function cell(interval, left, right, origin) {
  const button = document.createElement("button"), label = interval[2];
  button.type = "button";
  button.style.left = left + "px";
  button.style.width = right - left + "px";
  const room = right - left;
  button.textContent = fits(label, 1.35 * room) ? label : "";
  if (!fits(label, room)) button.classList.add("tight");
  button.dataset.start = interval[0];
  button.dataset.tier = origin;
  button.title = describe(interval, origin);
  if (interval[4]) button.classList.add("silent");
  if (interval === picked) button.classList.add("picked");
  const tint = origin === "phones" ? shade(interval[3]) : null;
  if (tint) { button.classList.add("rated"); button.style.setProperty("--shade", tint); }
  button.onclick = () => { pick(interval, origin); play(interval[0], interval[1]); };
  button.ondblclick = () => { const wide = interval[1] - interval[0]; show(interval[0] - wide, interval[1] + wide); };
  return button;
}

function describe(interval, origin) {
  const [start, end, label] = interval, parts = [
    `${label || "(silence)"}  ${start.toFixed(3)} to ${end.toFixed(3)} s`, `${Math.round(1000 * (end - start))} ms`];
  if (origin === "phones") {
    if (interval[3] !== null) parts.push(`confidence of its start ${interval[3].toFixed(2)}`);
    const error = data.errors.find(e => e[0] === start);
    if (error) parts.push(error[2] ? `starts ${Math.abs(error[2])} ms ${error[2] > 0 ? "after" : "before"} the reference` : "starts with the reference");
  } else if (origin.startsWith("reference")) parts.push("reference");
  return parts.join(" · ");
}

function pick(interval, origin) {
  picked = interval;
  selection = [interval[0], interval[1]];
  $("status").textContent = describe(interval, origin);
  cells(); overlay();
}

// --- moving about ----------------------------------------------------------------------------------------
function show(from, to) {
  const span = Math.min(length, Math.max(.02, to - from));
  view.from = Math.min(Math.max(0, (from + to - span) / 2), length - span);
  view.to = view.from + span;
  if (!scheduled) { scheduled = true; requestAnimationFrame(draw); }
}
function zoom(factor, around) {  // by default around the start that was picked, if it is in sight
  const seen = picked && view.from <= picked[0] && picked[0] <= view.to;
  const at = around !== undefined ? around : seen ? picked[0] : (view.from + view.to) / 2;
  show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
function move(share) {
  const by = share * (view.to - view.from);
  show(view.from + by, view.to + by);
}
function draw() {
  scheduled = false;
  ruler(); wave(); spectrum(); cells(); overlay();
  const thumb = $("overview").firstElementChild;
  thumb.style.left = 100 * view.from / length + "%";
  thumb.style.width = 100 * (view.to - view.from) / length + "%";
  thumb.style.opacity = view.to - view.from < length ? 1 : .3;
}

// --- correcting ------------------------------------------------------------------------------------------
const near = event => {  // the boundary under the pointer, 0 if there is none
  if (!contiguous || !event.target.closest("#wave, #spectrum, [data-tier=phones]")) return 0;
  const box = $("wave").getBoundingClientRect(), span = view.to - view.from;
  return nearestBoundary(data.phones, view.from + (event.clientX - box.left) / box.width * span, 5 / box.width * span);
};
function edited() {
  const n = new Set(moves.map(m => m[0])).size;
  doubtful = data.phones.filter(p => p[3] !== null).sort((p, q) => p[3] - q[3]);
  $("export").hidden = !moves.length;
  $("edited").textContent = `${n} ${n === 1 ? "boundary" : "boundaries"} moved; the page keeps this only until it is closed`;
  cells(); overlay();
}
function drag(event, k) {
  const panel = $("panel"), before = data.phones[k][0];
  panel.setPointerCapture(event.pointerId);
  const follow = e => {
    const now = moveBoundary(data.phones, data.words, k, time(e));
    $("status").textContent = `${data.phones[k - 1][2]} | ${data.phones[k][2]}  ${now.toFixed(3)} s · ${Math.round(1000 * (now - before))} ms from where it was`;
    cells(); overlay();
  };
  const end = () => {
    panel.removeEventListener("pointermove", follow);
    panel.removeEventListener("pointerup", end);
    panel.removeEventListener("pointercancel", end);
    if (Math.abs(data.phones[k][0] - before) < SLACK) return;
    moves.push([k, before, data.phones[k][3]]);
    data.phones[k][3] = null;  // no aligner vouches for it
    edited();
  };
  panel.addEventListener("pointermove", follow);
  panel.addEventListener("pointerup", end);
  panel.addEventListener("pointercancel", end);
}
$("panel").addEventListener("pointerdown", event => {
  const k = event.button === 0 ? near(event) : 0;
  if (!k) return;
  event.stopPropagation();
  event.preventDefault();
  drag(event, k);
}, true);
$("panel").addEventListener("pointermove", event => { if (!event.buttons) $("panel").classList.toggle("grab", near(event) > 0); });
$("panel").addEventListener("click", event => { if (near(event)) event.stopPropagation(); }, true);
$("download").onclick = () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([textGrid(data.phones, data.words, data.duration)], { type: "text/plain" }));
  link.download = data.name + ".TextGrid";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

const keys = {
  u: () => {
    if (!moves.length) return;
    const [k, before, sure] = moves.pop();
    moveBoundary(data.phones, data.words, k, before);
    data.phones[k][3] = sure;
    edited();
  },
  ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), ArrowUp: () => zoom(.5), ArrowDown: () => zoom(2),
  "+": () => zoom(.5), "-": () => zoom(2), 0: () => show(0, length), Home: () => show(0, view.to - view.from),
  End: () => show(length - (view.to - view.from), length),
  " ": () => playing ? stop() : play(...(selection || [view.from, view.to])),
  n: () => {
    if (!doubtful.length) return;
    doubt = (doubt + 1) % doubtful.length;
    const phone = doubtful[doubt], half = Math.min(1, length) / 2;
    show(phone[0] - half, phone[0] + half);
    pick(phone, "phones");
  },
};
document.addEventListener("keydown", event => {
  const act = keys[event.key] || keys[event.key.toLowerCase()];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target instanceof Element && event.target.matches("button, summary")) return;  // it presses what has the focus
  event.preventDefault();
  act();
});

const time = event => {
  const box = $("wave").getBoundingClientRect();
  return Math.min(length, Math.max(0, view.from + (event.clientX - box.left) / box.width * (view.to - view.from)));
};
for (const id of ["wave", "spectrum"]) {
  const c = $(id);
  let anchor = null;
  c.style.cursor = "text";
  c.style.touchAction = "pan-y";
  c.onpointerdown = event => { anchor = time(event); c.setPointerCapture(event.pointerId); };
  c.onpointermove = event => {
    if (anchor === null) return;
    const here = time(event);
    selection = [Math.min(anchor, here), Math.max(anchor, here)];
    overlay();
  };
  c.onpointerup = event => {
    const here = time(event), dragged = Math.abs(here - anchor) / (view.to - view.from) > .004;
    anchor = null;
    if (dragged) {
      $("status").textContent = `${selection[0].toFixed(3)} to ${selection[1].toFixed(3)} s · ${Math.round(1000 * (selection[1] - selection[0]))} ms`;
      return play(...selection);
    }
    const phone = data.phones.find(p => p[0] <= here && here < p[1]);
    if (phone) { pick(phone, "phones"); play(phone[0], phone[1]); }
  };
}
$("panel").addEventListener("wheel", event => {
  const across = event.shiftKey ? event.deltaY : event.deltaX;
  if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), time(event));
  else if (across) move(across / 1000);
  else return;
  event.preventDefault();
}, { passive: false });
$("overview").onclick = event => {
  const box = $("overview").getBoundingClientRect(), at = (event.clientX - box.left) / box.width * length;
  show(at - (view.to - view.from) / 2, at + (view.to - view.from) / 2);
};

$("list").addEventListener("toggle", () => {  // thousands of rows are made only for those who look
  const table = $("list").querySelector("table");
  if (table.rows.length) return;
  const row = (kind, words) => {
    const tr = table.insertRow();
    for (const word of words) tr.appendChild(document.createElement(kind)).textContent = word;
  };
  const starts = new Map(data.errors.map(e => [e[0], e[2]]));
  row("th", ["phone", "start, s", "end, s", "ms", "confidence", ...(data.reference ? ["difference, ms"] : [])]);
  for (const [start, end, label, sure] of data.phones)
    row("td", [label, start.toFixed(3), end.toFixed(3), Math.round(1000 * (end - start)), sure === null ? "" : sure.toFixed(2),
      ...(data.reference ? [starts.has(start) ? starts.get(start) : ""] : [])]);
});

$("top").textContent = rate / 2000;
window.addEventListener("resize", () => show(view.from, view.to));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
})();
