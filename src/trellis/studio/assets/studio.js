// The page of the studio: it puts the parts together.
import { $, ask, forgetColours, make, seconds } from "./basics.js";
import { at } from "./boundaries.js";
import { Desk } from "./desk.js";
import { Hands } from "./hands.js";
import { Learning } from "./learning.js";
import { List } from "./list.js";
import { Player } from "./player.js";
import { Stage } from "./stage.js";
import { describe, Tier } from "./tiers.js";
import { Tiles } from "./tiles.js";

history.replaceState(null, "", location.pathname + location.hash);  // the token need not stay in sight

function say(text) {
  const message = make("p", text), close = make("button", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Dismiss");
  close.onclick = () => message.remove();
  message.append(close);
  if ([...$("messages").children].some(m => m.firstChild.data === text)) return;
  $("messages").append(message);
  while ($("messages").children.length > 4) $("messages").firstChild.remove();
}

const answer = await ask("/api/recordings").catch(error => { say(error.message); throw error; });
const desk = new Desk(answer.silences, changed, stale, say), stage = new Stage(desk);
const player = new Player(now => { desk.playing = now; $("play").textContent = now === null ? "▶" : "■"; follow(now); });
const list = new List(id => open(id)), learning = new Learning(refresh, say, () => list.resort());

// --- the recording at work -------------------------------------------------------------------------------------
let wanted = null, opening = 0;  // of several wishes at once, the last one counts
async function open(id) {
  const turn = ++opening;
  wanted = id;
  if (id !== desk.id) player.stop();
  const content = await ask(`/api/recordings/${id}`).catch(error => { say(error.message); return null; });
  if (!content || turn !== opening) return;
  const again = id === desk.id;
  let { tiles } = desk;
  if (!again || tiles?.key !== content.key) {
    tiles?.close();
    tiles = content.rate ? new Tiles(id, content.key, content.tiles, content.duration, () => stage.redraw()) : null;
    desk.clear();
  }
  desk.take(id, content, tiles);
  if (desk.picked && !desk.pickedRow()) desk.picked = null;
  list.current = id;
  list.draw();
  history.replaceState(null, "", "#" + encodeURIComponent(content.name));
  $("messages").replaceChildren();
  if (content.notice) say(content.notice);
  $("hertz").textContent = content.rate ? `0 – ${Math.min(8, content.rate / 2000)} kHz` : "";
  $("empty").hidden = content.phones.length > 0;
  $("empty").textContent = content.problem || "This recording is being aligned …";
  $("saved").textContent = "";
  $("status").textContent = content.phones.length ? "Click a phone or a word to hear it; N goes to the least sure start." : "";
  if (again) stage.redraw(); else stage.open();
  facts();
}

function facts() {
  const spoken = desk.phones.filter(p => !desk.isSilence(p[2])).length, sure = desk.phones.map(p => p[3]).filter(c => c !== null);
  const parts = [seconds(desk.duration), `${spoken} phones`];
  if (desk.words.length) parts.push(`${desk.words.length} words`);
  if (sure.length) parts.push(`mean confidence ${(sure.reduce((a, b) => a + b, 0) / sure.length).toFixed(2)}`);
  parts.push({ waiting: "to be aligned", untouched: "aligned, not touched", corrected: "corrected by hand, saved", given: "loaded from the TextGrid beside it, which counts as corrected", failed: "could not be aligned" }[desk.state]);
  document.querySelector(".tier.words").hidden = !desk.words.length;
  $("name").textContent = desk.name;
  $("facts").textContent = parts.join(" · ");
  $("undo").disabled = !desk.undo;
  $("redo").disabled = !desk.redo;
  for (const id of ["play", "previous", "next"]) $(id).disabled = !desk.phones.length;
  $("checked").disabled = !desk.phones.length || (desk.state === "corrected" && !sure.length);
  document.title = `${desk.name} – Trellis studio`;
}

function changed(summary) {
  list.update(desk.id, summary);
  learning.enable(list.all.filter(r => r.state === "corrected" || r.state === "given").length);
  facts();
  const row = desk.pickedRow();
  if (row) $("status").textContent = describe(desk.picked.tier, row);
  stage.redraw();
}

async function stale() {
  const notes = [...$("messages").children];
  await open(desk.id);
  $("messages").prepend(...notes);
}

async function refresh() {
  const found = await ask("/api/recordings").catch(error => say(error.message));
  if (!found) return;
  take(found);
  const here = found.recordings.find(r => r.id === wanted);
  if (here && !desk.held && (here.state === "untouched" || desk.state === "waiting")) {
    const notes = [...$("messages").children];
    await open(wanted);
    $("messages").append(...notes);
  }
}

function take(found) {
  list.take(found.recordings);
  $("folder").textContent = `${found.folder} · ${found.adapted ? "model adapted from " : ""}${found.model.split("/").at(-1)}`;
  $("folder").title = found.adapted || found.model;
  learning.enable(found.recordings.filter(r => r.state === "corrected" || r.state === "given").length);
  learning.take(found.task);
}

// --- what people do --------------------------------------------------------------------------------------------
function pick(tier, index, heard = true) {
  const row = desk[tier][index];
  if (!row) return;
  desk.picked = { tier, index };
  desk.selection = [row[0], row[1]];
  desk.cursor = null;
  $("status").textContent = describe(tier, row);
  stage.reveal(row[0], row[1]);
  if (heard) play(row[0], row[1]);
}
function play(from, to) { if (desk.rate && to > from) player.play(desk.id, desk.rate, from, to); }
function follow(now) {
  if (now !== null && now > stage.view.to - .05 * (stage.view.to - stage.view.from) && now < desk.duration) {
    const span = stage.view.to - stage.view.from;
    if (!desk.selection || desk.selection[1] > stage.view.to) stage.show(now - .1 * span, now + .9 * span);
  }
  stage.redraw();
}
function doubtful(forth) {
  const k = desk.doubtful(forth);
  if (!k) return say("No start is in doubt: all were set or confirmed by hand, or carry no confidence.");
  const half = Math.min(.5, desk.duration / 2), t = desk.phones[k][0];
  stage.show(t - half, t + half);
  pick("phones", k, false);
  desk.selection = null;
  stage.redraw();
}
function split() {
  const t = desk.cursor ?? (desk.pickedRow() ? (desk.pickedRow()[0] + desk.pickedRow()[1]) / 2 : null);
  if (t === null) return say("Click where the new boundary should be, then split.");
  const phone = at(desk.phones, t);
  desk.edit({ op: "split", phone, time: t, label: desk.phones[phone][2] }).then(done => {
    if (done) { pick("phones", phone + 1, false); hands.rename("phones", phone + 1); }
  });
}
function neighbour(step) {
  const tier = desk.picked?.tier || "phones", rows = desk[tier];
  pick(tier, Math.min(rows.length - 1, Math.max(0, (desk.picked ? desk.picked.index : -1) + step)), false);
}
function word() {
  const t = desk.cursor ?? desk.pickedRow()?.[0], index = t === undefined ? -1 : at(desk.words, t + 1e-6);
  if (index >= 0 && desk.words[index][1] > t) play(desk.words[index][0], desk.words[index][1]);
}
const boundary = () => desk.picked?.tier === "phones" ? desk.picked.index : 0;
const doing = {
  toggle() {
    if (player.isPlaying) return player.stop();
    const whole = [stage.view.from, stage.view.to];
    play(...(desk.selection || (desk.pickedRow() ? desk.pickedRow().slice(0, 2) : whole)));
  },
  phone() { const row = desk.picked?.tier === "phones" ? desk.pickedRow() : desk.phones[at(desk.phones, desk.cursor ?? stage.view.from)]; if (row) play(row[0], row[1]); },
  fromCursor() { const t = desk.cursor ?? desk.pickedRow()?.[0] ?? stage.view.from; desk.selection = null; play(t, desk.duration); },
  undo() { if (desk.undo) desk.send("undo", {}); },
  redo() { if (desk.redo) desk.send("redo", {}); },
  remove() { const k = boundary(); if (k) desk.edit({ op: "merge", boundary: k }).then(done => { if (done) pick("phones", k - 1, false); }); },
  confirm() { const k = boundary(); if (k) desk.edit({ op: "confirm", boundary: k }); },
  checked() { desk.edit({ op: "confirm" }); },
  rename() { if (desk.picked) hands.rename(desk.picked.tier, desk.picked.index); },
};
const keys = [
  ["Space", "play the selection, or stop", [" "], doing.toggle],
  ["P", "play the phone", ["P"], doing.phone],
  ["W", "play the word", ["W"], word],
  ["F", "play from the cursor on", ["F"], doing.fromCursor],
  ["N / Shift+N", "next / previous doubtful boundary", ["N"], () => doubtful(true)],
  [null, null, ["Shift+N"], () => doubtful(false)],
  ["C", "confirm: this boundary is right", ["C"], doing.confirm],
  ["Alt+← / →", "move the boundary by 5 ms (with Shift by 1 ms)", ["Alt+ArrowLeft"], () => hands.nudge(-.005)],
  [null, null, ["Alt+ArrowRight"], () => hands.nudge(.005)],
  [null, null, ["Alt+Shift+ArrowLeft"], () => hands.nudge(-.001)],
  [null, null, ["Alt+Shift+ArrowRight"], () => hands.nudge(.001)],
  ["S", "split the phone at the cursor", ["S"], split],
  ["Del", "remove the boundary before the phone", ["Delete", "Backspace"], doing.remove],
  ["Enter", "rename", ["Enter", "F2"], doing.rename],
  ["Ctrl+Z / Ctrl+Shift+Z", "undo / redo", ["Ctrl+Z"], doing.undo],
  [null, null, ["Ctrl+Shift+Z", "Ctrl+Y"], doing.redo],
  ["← / →", "previous / next phone or word", ["ArrowLeft"], () => neighbour(-1)],
  [null, null, ["ArrowRight"], () => neighbour(1)],
  ["Shift+← / →", "scroll (or the wheel)", ["Shift+ArrowLeft"], () => stage.move(-.25)],
  [null, null, ["Shift+ArrowRight"], () => stage.move(.25)],
  ["↑ / ↓", "zoom in / out (or Ctrl and the wheel)", ["ArrowUp", "+"], () => stage.zoom(.5)],
  [null, null, ["ArrowDown", "-"], () => stage.zoom(2)],
  ["Z / 0", "zoom to what is picked / the whole recording", ["Z"], () => { const row = desk.pickedRow(); if (row) stage.show(row[0] - .5 * (row[1] - row[0]), row[1] + .5 * (row[1] - row[0])); }],
  [null, null, ["0"], () => stage.show(0, desk.duration)],
  ["Home / End", "beginning / end", ["Home"], () => stage.show(0, stage.view.to - stage.view.from)],
  [null, null, ["End"], () => stage.show(desk.duration - (stage.view.to - stage.view.from), desk.duration)],
  ["PgUp / PgDn", "previous / next recording", ["PageUp"], () => go(-1)],
  [null, null, ["PageDown"], () => go(1)],
  ["/", "search", ["/"], () => $("search").focus()],
  ["?", "this list", ["?"], () => $("keys").showModal()],
];
function go(step) { const id = list.neighbour(step); if (id !== undefined && id !== desk.id) open(id); }

const hands = new Hands(desk, stage, { pick, play, keys: Object.fromEntries(keys.flatMap(([, , names, act]) => names.map(n => [n, act]))) });
new Tier("words", stage, desk, pick, (tier, index) => hands.rename(tier, index));
new Tier("phones", stage, desk, pick, (tier, index) => hands.rename(tier, index));
for (const [name, what] of keys) if (name) $("keys").querySelector("dl").append(make("dt", name), make("dd", what));
$("undo").onclick = doing.undo;
$("redo").onclick = doing.redo;
$("play").onclick = doing.toggle;
$("next").onclick = () => doubtful(true);
$("previous").onclick = () => doubtful(false);
$("checked").onclick = doing.checked;
$("help").onclick = () => $("keys").showModal();

// --- light and dark --------------------------------------------------------------------------------------------
const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(name) {
  document.documentElement.dataset.theme = name;
  forgetColours();
  list.draw();
  stage.redraw();
}
try { theme(localStorage.getItem("trellis-studio-theme") || (dark.matches ? "dark" : "light")); } catch { theme(dark.matches ? "dark" : "light"); }
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
$("theme").onclick = () => {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(name);
  try { localStorage.setItem("trellis-studio-theme", name); } catch { /* it lasts as long as the page */ }
};

// --- begin -----------------------------------------------------------------------------------------------------
window.studio = { desk, stage, list, learning, player };  // for the console, and for tests
const asked = location.hash.slice(1);
take(answer);
const first = answer.recordings.find(r => encodeURIComponent(r.name) === asked)?.id ?? list.sorted()[0]?.id;
if (first !== undefined) await open(first);
const unknown = Object.keys(answer.unknown);
if (unknown.length) say(`${unknown.length} word${unknown.length === 1 ? " is" : "s are"} not in the dictionary: ${unknown.slice(0, 30).join(" ")}${unknown.length > 30 ? " …" : ""}`);
document.documentElement.dataset.ready = "true";
