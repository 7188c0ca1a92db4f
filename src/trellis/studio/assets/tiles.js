// Tiles of waveform and spectrogram: those in sight are fetched, the latest wish first, and the last few hundred kept.
import { colours } from "./basics.js";

const KEPT = 160, AT_ONCE = 4;

export class Tiles {
  constructor(id, key, shape, duration, arrived) {
    Object.assign(this, { id, key, shape, duration, arrived });
    this.kept = new Map();
    this.wanted = [];
    this.underWay = 0;
    this.fetched = 0;
    this.closed = false;
  }

  level(secondsPerPixel) {  // a column is about a pixel
    return Math.min(this.shape.levels - 1, Math.max(0, Math.round(Math.log2(secondsPerPixel / this.shape.finest))));
  }
  length(level) { return this.shape.finest * 2 ** level * this.shape.columns; }  // of a tile, in seconds
  count(level) { return Math.ceil(this.duration / this.length(level) - 1e-9); }

  get(level, number) {  // the tile, or undefined: then it is fetched, and ``arrived`` called
    const key = level + "/" + number, found = this.kept.get(key);
    if (found) {
      this.kept.delete(key);
      this.kept.set(key, found);  // the last used is the last to go
      return found.wave ? found : undefined;
    }
    return undefined;
  }

  want(level, first, last) {  // those in sight, then one to either side
    const numbers = [];
    for (let n = first; n <= last; n++) numbers.push(n);
    numbers.push(last + 1, first - 1);
    this.wanted = numbers.filter(n => n >= 0 && n < this.count(level) && !this.kept.has(level + "/" + n)).map(n => [level, n]);
    this.next();
  }

  next() {
    while (this.underWay < AT_ONCE && this.wanted.length && !this.closed) this.fetch(...this.wanted.shift());
  }

  async fetch(level, number) {
    const key = level + "/" + number;
    this.underWay++;
    this.kept.set(key, {});
    try {
      const answer = await fetch(`/api/recordings/${this.id}/tiles/${level}/${number}?${this.key}`);
      if (!answer.ok) throw new Error();
      this.take(key, await answer.arrayBuffer());
      this.fetched++;
    } catch {
      this.kept.delete(key);
    }
    this.underWay--;
    if (!this.closed) { this.arrived(); this.next(); }
  }

  take(key, buffer) {
    const { columns, rows, fine } = this.shape, points = 2 * fine * columns;
    this.kept.set(key, { wave: new Int16Array(buffer, 0, points), bytes: new Uint8Array(buffer, 2 * points, rows * columns), picture: null, theme: null });
    while (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
  }

  picture(tile) {  // its spectrogram in the colours of the theme
    const { ramp } = colours();
    if (tile.theme !== ramp) {
      const { columns, rows } = this.shape, pixels = new Uint32Array(columns * rows);
      for (let row = 0; row < rows; row++)  // the first row is the lowest frequency, at the bottom
        for (let c = 0, from = row * columns, to = (rows - 1 - row) * columns; c < columns; c++) pixels[to + c] = ramp[tile.bytes[from + c]];
      const image = new ImageData(new Uint8ClampedArray(pixels.buffer), columns, rows);
      tile.picture = tile.picture || new OffscreenCanvas(columns, rows);
      tile.picture.getContext("2d").putImageData(image, 0, 0);
      tile.theme = ramp;
    }
    return tile.picture;
  }

  close() { this.closed = true; this.wanted = []; }
}
