// Small things that every module of the page needs.
export const $ = id => document.getElementById(id);

export function make(kind, text, className) {  // text is always text: no label can become markup
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));

let palette = null;
export function colours() {  // the colours of the theme, read once
  if (!palette) {
    palette = {};
    for (const name of ["paper", "ink", "dim", "line", "wave", "deep", "pick", "low", "middle", "high", "hand"]) palette[name] = colour(name);
    palette.shades = Array.from({ length: 101 }, (_, i) => {
      const half = i < 50, share = half ? i / 50 : i / 50 - 1;
      const u = rgb(palette[half ? "low" : "middle"]), v = rgb(palette[half ? "middle" : "high"]);
      return "rgb(" + u.map((c, k) => Math.round(c + (v[k] - c) * share)).join(" ") + ")";
    });
    const paper = rgb(palette.paper), ink = rgb(palette.deep);
    palette.ramp = new Uint32Array(256);  // a byte of a spectrogram to a pixel, the middle 45 of its 70 dB
    for (let b = 0; b < 256; b++) {
      const dark = Math.min(1, Math.max(0, (70 * b / 255 - 19) / 45)) ** 1.1;
      const [r, g, c] = paper.map((p, k) => Math.round(p + (ink[k] - p) * dark));
      palette.ramp[b] = 0xff000000 | c << 16 | g << 8 | r;
    }
  }
  return palette;
}
export const forgetColours = () => { palette = null; };
export const shade = sure => sure === null ? colours().hand : colours().shades[Math.round(100 * sure)];

export function fitted(canvas) {  // its drawing context, in CSS pixels, its width and its height
  const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(box.width * scale)), height = Math.max(1, Math.round(box.height * scale));
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, box.width, box.height);
  return [g, box.width, box.height];
}

export const seconds = t => t >= 60 ? `${Math.floor(t / 60)}:${(t % 60).toFixed(0).padStart(2, "0")}` : `${t.toFixed(1)} s`;

export async function ask(path, content) {  // GET, or POST where there is something to say
  const options = content === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(content) };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw Object.assign(new Error("The studio does not answer. Is it still running in the terminal? What was saved is safe."), { status: 0 });
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(found.error || `status ${answer.status}`), { status: answer.status });
  return found;
}
