// Ruler, waveform, spectrogram and what is drawn over them, for the stretch of time that is in view.
import { $, colours, fitted, shade } from "./basics.js";
import { at } from "./boundaries.js";

const STEPS = [.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600];
const NARROWEST = .03;

export class Stage {
  constructor(state) {
    this.state = state;
    this.view = { from: 0, to: 1 };
    this.loud = 1000;
    this.stats = { frames: 0, longest: 0, total: 0, recent: [] };
    this.scheduled = false;
    this.followers = [];
    new ResizeObserver(() => this.redraw()).observe($("panel"));
  }

  get width() { return this.box?.width || 1; }
  x(time) { return (time - this.view.from) / (this.view.to - this.view.from) * this.width; }
  time(clientX) {
    const box = $("wave").getBoundingClientRect();
    const t = this.view.from + (clientX - box.left) / box.width * (this.view.to - this.view.from);
    return Math.min(this.state.duration, Math.max(0, t));
  }

  open() {  // a recording was opened
    const length = this.state.duration;
    this.loud = 1000;
    this.overview = null;
    this.show(0, length > 4 ? 3 : length);
    const id = this.state.id;
    if (!this.state.tiles) return;  // there is no sound to see
    fetch(`/api/recordings/${id}/overview?${this.state.tiles.key}`).then(answer => answer.ok ? answer.arrayBuffer() : null).then(buffer => {
      if (!buffer || id !== this.state.id) return;
      this.overview = new Int16Array(buffer);
      this.loud = this.overview.reduce((most, s) => Math.max(most, Math.abs(s)), 200);
      this.redraw();
    }).catch(() => {});
  }

  show(from, to) {
    const length = this.state.duration || 1, span = Math.min(length, Math.max(NARROWEST, to - from));
    this.view.from = Math.min(Math.max(0, (from + to - span) / 2), length - span);
    this.view.to = this.view.from + span;
    this.redraw();
  }
  move(share) { const by = share * (this.view.to - this.view.from); this.show(this.view.from + by, this.view.to + by); }
  zoom(factor, around) {
    const t = around ?? this.focus(), { from, to } = this.view;
    this.show(t - (t - from) * factor, t + (to - t) * factor);
  }
  focus() {  // the time to zoom around: the picked start, if it is in sight
    const row = this.state.pickedRow();
    return row && row[0] >= this.view.from && row[0] <= this.view.to ? row[0] : (this.view.from + this.view.to) / 2;
  }
  reveal(from, to) {  // scroll as little as needed
    const { view } = this, span = view.to - view.from, edge = .1 * span;
    if (to - from > .8 * span) this.show(from - .1 * (to - from), to + .1 * (to - from));
    else if (from < view.from) this.show(from - edge, from - edge + span);
    else if (to > view.to) this.show(to + edge - span, to + edge);
    else this.redraw();
  }

  redraw() { if (!this.scheduled) { this.scheduled = true; requestAnimationFrame(() => this.draw()); } }
  draw() {
    const began = performance.now();
    this.scheduled = false;
    this.box = $("wave").getBoundingClientRect();
    this.ruler();
    if (this.state.tiles) this.pictures();
    else for (const id of ["wave", "spectrum"]) fitted($(id));
    this.whole();
    for (const follower of this.followers) follower();
    this.overlay();
    const took = performance.now() - began, { stats } = this;
    stats.frames++;
    stats.total += took;
    stats.longest = Math.max(stats.longest, took);
    stats.recent.push(took);
    if (stats.recent.length > 500) stats.recent.shift();
  }

  ruler() {
    const [g, width, height] = fitted($("ruler")), { from, to } = this.view, { line, dim } = colours();
    const step = STEPS.find(s => s / (to - from) * width > 80) || 1200;
    const digits = step < .01 ? 3 : step < .1 ? 2 : step < 1 ? 1 : 0;
    g.strokeStyle = line; g.fillStyle = dim; g.font = "11px system-ui, sans-serif";
    for (let k = Math.ceil(from / step - 1e-9); k * step <= to; k++) {
      const x = Math.round(this.x(k * step)) + .5, t = k * step;
      g.beginPath(); g.moveTo(x, height - 6); g.lineTo(x, height); g.stroke();
      const text = t >= 60 ? `${Math.floor(t / 60)}:${(t % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0")}` : t.toFixed(digits) + " s";
      if (x < width - 40) g.fillText(text, x + 4, height - 7);
    }
  }

  pictures() {
    const { tiles } = this.state, { from, to } = this.view, width = this.width;
    const level = tiles.level((to - from) / width), length = tiles.length(level);
    const first = Math.floor(from / length), last = Math.min(tiles.count(level) - 1, Math.floor(to / length));
    tiles.want(level, first, last);
    const [g, , height] = fitted($("spectrum"));
    g.imageSmoothingQuality = "high";
    const seen = [];
    for (let n = first; n <= last; n++) {
      const tile = tiles.get(level, n);
      if (tile) {
        const left = this.x(n * length), right = this.x((n + 1) * length);
        g.drawImage(tiles.picture(tile), left, 0, right - left, height);
      } else this.stand_in(g, tiles, level, n, height);
      seen.push([n, tile]);
    }
    this.wave(tiles, level, length, seen);
  }

  stand_in(g, tiles, level, number, height) {  // until a tile comes: the same time from a coarser one that is there
    for (let up = 1; up < 6 && level + up < tiles.shape.levels; up++) {
      const parent = tiles.get(level + up, number >> up);
      if (!parent) continue;
      const share = tiles.shape.columns / 2 ** up, left = this.x(number * tiles.length(level)), right = this.x((number + 1) * tiles.length(level));
      g.drawImage(tiles.picture(parent), (number % 2 ** up) * share, 0, share, tiles.shape.rows, left, 0, right - left, height);
      return;
    }
  }

  wave(tiles, level, length, seen) {  // each pixel spans the least and the greatest sample in it
    const [g, width, height] = fitted($("wave")), middle = height / 2, tall = (middle - 4) / this.loud, theme = colours();
    g.strokeStyle = theme.line;
    g.beginPath(); g.moveTo(0, middle); g.lineTo(width, middle); g.stroke();
    g.fillStyle = theme.wave;
    const points = tiles.shape.columns * tiles.shape.fine, per = length / points, half = window.devicePixelRatio > 1 ? .5 : 1;
    const pixel = half / width * (this.view.to - this.view.from);
    g.beginPath();
    for (const [n, tile] of seen) {
      if (!tile) continue;
      const start = n * length, from = Math.max(0, Math.floor(this.x(start) / half)), to = Math.min(width / half, Math.ceil(this.x(start + length) / half));
      for (let column = from; column < to; column++) {
        const t = this.view.from + column * pixel - start;
        const a = Math.max(0, Math.floor(t / per)), b = Math.min(points, Math.max(a + 1, Math.ceil((t + pixel) / per)));
        let low = 32767, high = -32768;
        for (let i = a; i < b; i++) {
          if (tile.wave[2 * i] < low) low = tile.wave[2 * i];
          if (tile.wave[2 * i + 1] > high) high = tile.wave[2 * i + 1];
        }
        if (low <= high) g.rect(column * half, middle - high * tall, half, Math.max(1, (high - low) * tall));
      }
    }
    g.fill();
  }

  whole() {
    const [g, width, height] = fitted($("overview")), { pick, dim, low } = colours(), length = this.state.duration || 1;
    const points = this.overview, middle = (height - 4) / 2;
    if (points) {
      g.fillStyle = dim; g.globalAlpha = .6;
      for (let x = 0; x < width; x++) {
        const i = 2 * Math.min(points.length / 2 - 1, Math.floor(x / width * points.length / 2)), tall = middle / this.loud;
        g.fillRect(x, middle - points[i + 1] * tall, 1, Math.max(1, (points[i + 1] - points[i]) * tall));
      }
    }
    g.globalAlpha = 1; g.fillStyle = low;
    for (const [start] of this.state.worst()) g.fillRect(start / length * width - 1, height - 4, 2, 4);
    const from = this.view.from / length * width, wide = Math.max(3, (this.view.to - this.view.from) / length * width);
    g.fillStyle = pick; g.globalAlpha = .28; g.fillRect(from, 0, wide, height);
    g.globalAlpha = 1; g.strokeStyle = pick; g.strokeRect(from + .5, .5, wide - 1, height - 1);
  }

  overlay() {  // boundaries, selection, cursor and the place that is heard
    const c = $("overlay"), top = $("wave"), bottom = $("spectrum"), height = bottom.offsetTop + bottom.offsetHeight - top.offsetTop;
    c.style.left = top.offsetLeft + "px"; c.style.top = top.offsetTop + "px";
    c.style.width = this.width + "px"; c.style.height = height + "px";
    const [g, width] = fitted(c), { state, view } = this, theme = colours();
    const line = (t, style, wide = 1, dash = []) => {
      if (t < view.from || t > view.to) return;
      g.strokeStyle = style; g.lineWidth = wide; g.setLineDash(dash);
      const x = Math.round(this.x(t)) + (wide % 2 ? .5 : 0);
      g.beginPath(); g.moveTo(x, 0); g.lineTo(x, height); g.stroke();
    };
    if (state.selection) {
      g.fillStyle = theme.pick; g.globalAlpha = .2;
      g.fillRect(this.x(state.selection[0]), 0, this.x(state.selection[1]) - this.x(state.selection[0]), height);
    }
    const { phones } = state, first = Math.max(1, at(phones, view.from)), last = at(phones, view.to);
    if (last - first < width / 6) {
      for (let k = first; k <= last; k++) {
        const held = k === state.held || k === state.hovered || (k === state.picked?.index && state.picked.tier === "phones");
        g.globalAlpha = held ? 1 : .7;
        line(phones[k][0], held ? theme.pick : shade(phones[k][3]), held ? 2 : 1);
      }
    }
    g.globalAlpha = 1;
    if (state.cursor !== null) line(state.cursor, theme.ink, 1, [3, 3]);
    if (state.playing !== null) line(state.playing, theme.pick, 2);
  }
}
