// What a page does to the boundaries of an alignment. Rows are [start, end, label, confidence or null, ...]; phones have
// no gaps, words may. Boundary k is the start of phone k. The same rules hold in src/trellis/studio/edits.py.
export const SHORTEST = .001, SLACK = 1e-6;

export function at(rows, time) {  // the last row that starts at or before the time, -1 if there is none
  let low = -1, high = rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows[middle][0] <= time) low = middle; else high = middle - 1;
  }
  return low;
}

export function nearestBoundary(phones, time, within) {  // 0 if none lies near enough
  const here = Math.max(0, at(phones, time));
  let best = 0, least = within;
  for (const k of [here, here + 1])
    if (k > 0 && k < phones.length && Math.abs(phones[k][0] - time) <= least) { best = k; least = Math.abs(phones[k][0] - time); }
  return best;
}

export function limits(phones, k) {
  return [phones[k - 1][0] + SHORTEST, phones[k][1] - SHORTEST];
}

export function moveBoundary(phones, words, k, time) {  // in place; words that start or end there go with it
  const [low, high] = limits(phones, k), old = phones[k][0], now = Math.min(high, Math.max(low, time));
  phones[k - 1][1] = phones[k][0] = now;
  for (let w = Math.max(0, at(words, old + SLACK) - 1); w < words.length && words[w][0] <= old + SLACK; w++)
    for (const side of [0, 1]) if (Math.abs(words[w][side] - old) <= SLACK) words[w][side] = now;
  return now;
}

export function textGrid(phones, words, duration) {  // Praat's long text form; gaps become empty intervals
  const tiers = [...(words.length ? [["words", words]] : []), ["phones", phones]];
  const quoted = text => `"${text.replaceAll('"', '""')}"`, lines = [
    'File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", `xmax = ${duration}`, "tiers? <exists>",
    `size = ${tiers.length}`, "item []:"];
  tiers.forEach(([name, rows], t) => {
    const whole = [];
    let end = 0;
    for (const [start, stop, label] of rows) {
      if (start - end > SLACK) whole.push([end, start, ""]);
      whole.push([whole.length ? whole.at(-1)[1] : 0, stop, label]);
      end = stop;
    }
    if (duration - end > SLACK) whole.push([end, duration, ""]);
    lines.push(`    item [${t + 1}]:`, '        class = "IntervalTier"', `        name = ${quoted(name)}`,
      "        xmin = 0", `        xmax = ${duration}`, `        intervals: size = ${whole.length}`);
    whole.forEach(([start, stop, label], i) => lines.push(`        intervals [${i + 1}]:`,
      `            xmin = ${start}`, `            xmax = ${stop}`, `            text = ${quoted(label)}`));
  });
  return lines.join("\n") + "\n";
}
