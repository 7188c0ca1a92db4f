// d-separation: whether the edges make x and y independent given what is observed, and the paths that say why.
// The rules, the sentences and the order of openers are those of trellis.bayesnet.separation.

function separationRules(network, mostPaths = 20, mostSteps = 200000) {
  const n = network.names.length, children = network.names.map(() => []);
  network.parents.forEach((above, v) => above.forEach(parent => children[parent].push(v)));
  const near = network.names.map((_, v) => [...network.parents[v], ...children[v]].sort((a, b) => a - b));

  // For each node that is observed or has observed descendants, the nearest of these.
  const openers = observed => {
    const opener = new Map(observed.map(v => [v, v])), waiting = [...observed];
    for (let i = 0; i < waiting.length; i++) {
      for (const parent of network.parents[waiting[i]]) {
        if (!opener.has(parent)) { opener.set(parent, opener.get(waiting[i])); waiting.push(parent); }
      }
    }
    return opener;
  };

  // The shortest open walk from x to y, which is a path, or null. A state is a node and how it was entered.
  const openPath = (x, y, known, opener) => {
    const before = new Map([[2 * x, -1]]), waiting = [2 * x];
    for (let i = 0; i < waiting.length; i++) {
      const v = waiting[i] >> 1, down = waiting[i] & 1;
      if (v === y) {
        const path = [];
        for (let s = waiting[i]; s >= 0; s = before.get(s)) path.unshift(s >> 1);
        return path;
      }
      const go = state => { if (!before.has(state)) { before.set(state, waiting[i]); waiting.push(state); } };
      if (down ? opener.has(v) : !known.has(v)) network.parents[v].forEach(w => go(2 * w));
      if (!known.has(v)) children[v].forEach(w => go(2 * w + 1));
    }
    return null;
  };

  // Paths from short to long, at most ``mostPaths``; complete says whether these are all.
  const shortPaths = (x, y) => {
    const away = new Map([[y, 0]]), waiting = [y], paths = [];
    for (let i = 0; i < waiting.length; i++) {
      for (const w of near[waiting[i]]) {
        if (!away.has(w)) { away.set(w, away.get(waiting[i]) + 1); if (w !== x) waiting.push(w); }
      }
    }
    let steps = 0, longer = true;
    const search = (path, inside, length) => {
      const v = path[path.length - 1];
      if (v === y) { if (path.length === length) paths.push([...path]); return; }
      for (const w of near[v]) {
        if (paths.length > mostPaths || steps > mostSteps) return;
        if (inside.has(w) || !away.has(w)) continue;
        if (path.length + 1 + away.get(w) > length) { longer = true; continue; }
        steps++;
        path.push(w); inside.add(w);
        search(path, inside, length);
        path.pop(); inside.delete(w);
      }
    };
    if (!away.has(x)) return { paths, complete: true };
    for (let length = 2; longer && length <= n && paths.length <= mostPaths && steps <= mostSteps; length++) {
      longer = false;
      search([x], new Set([x]), length);
    }
    return { paths: paths.slice(0, mostPaths), complete: paths.length <= mostPaths && steps <= mostSteps };
  };

  const explained = (path, known, opener) => {
    const name = v => network.names[v];
    const ahead = path.slice(1).map((w, i) => network.parents[w].includes(path[i]));
    const nodes = path.slice(1, -1).map((v, i) => {
      if (ahead[i] && !ahead[i + 1]) return { v, rule: "collider", open: opener.has(v), by: opener.get(v) };
      return { v, rule: ahead[i] === ahead[i + 1] ? "chain" : "fork", open: !known.has(v) };
    });
    const said = node => {
      if (node.rule !== "collider") return `${name(node.v)} is a ${node.rule} and is ${node.open ? "not " : ""}observed`;
      if (!node.open) return `${name(node.v)} is a collider, and neither it nor a descendant of it is observed`;
      if (node.by === node.v) return `${name(node.v)} is a collider and is observed`;
      return `${name(node.v)} is a collider whose descendant ${name(node.by)} is observed`;
    };
    const open = nodes.every(node => node.open);
    let reasons = nodes.filter(node => !node.open).map(said);
    if (open) {
      reasons = nodes.filter(node => node.rule === "collider").map(said);
      for (const rule of ["chain", "fork"]) {
        const names = nodes.filter(node => node.rule === rule).map(node => name(node.v));
        if (names.length === 1) reasons.push(`${names[0]} is a ${rule} and is not observed`);
        else if (names.length) reasons.push(`${names.join(", ")} are ${rule}s and are not observed`);
      }
      if (!reasons.length) reasons.push("nothing can block an edge");
    }
    const text = path.map((v, i) => (i ? ` ${ahead[i - 1] ? "->" : "<-"} ` : "") + name(v)).join("");
    return { path, nodes, open, text, why: `${open ? "open" : "blocked"}: ${reasons.join("; ")}.` };
  };

  // x, y and the observed nodes are numbers, all different.
  return (x, y, observed) => {
    const known = new Set(observed), opener = openers(observed);
    const active = openPath(x, y, known, opener), found = shortPaths(x, y);
    const same = path => path.join() === active.join();
    if (active !== null && !found.paths.some(same)) {
      if (found.paths.length === mostPaths) found.paths.pop();
      found.paths.push(active);
    }
    return {
      separated: active === null,
      complete: found.complete,
      paths: found.paths.map(path => explained(path, known, opener)),
    };
  };
}
