// Exact inference by variable elimination: P(v | evidence) for every variable of a Bayesian network.
//
// network: { names, states, parents, tables }; a table is a flat array, the last parent changing faster than the
// first, the variable itself fastest. evidence: a Map from the number of a variable to the number of its state.

function exactInference(network) {
  const size = network.states.map(s => s.length);
  const ancestors = start => {
    const found = new Set(start), waiting = [...found];
    while (waiting.length) {
      for (const parent of network.parents[waiting.pop()]) {
        if (!found.has(parent)) { found.add(parent); waiting.push(parent); }
      }
    }
    return found;
  };

  // The table of a variable where the evidence holds: a factor { scope, values } over what is not observed.
  const factor = (variable, evidence) => {
    const all = [...network.parents[variable], variable];
    const scope = all.filter(v => !evidence.has(v)), step = strides(all);
    let first = 0;
    all.forEach((v, i) => { if (evidence.has(v)) first += evidence.get(v) * step[i]; });
    const steps = scope.map(v => step[all.indexOf(v)]);
    const values = new Float64Array(count(scope)), source = network.tables[variable];
    walk(scope, [steps], (place, [at]) => { values[place] = source[first + at]; });
    return { scope, values };
  };
  const count = scope => scope.reduce((n, v) => n * size[v], 1);
  const strides = scope => {
    const step = new Array(scope.length);
    let n = 1;
    for (let i = scope.length - 1; i >= 0; i--) { step[i] = n; n *= size[scope[i]]; }
    return step;
  };

  // Visit all states of a scope in order, with the places that several lists of strides lead to.
  function walk(scope, steps, visit) {
    const state = new Array(scope.length).fill(0), at = new Array(steps.length).fill(0), n = count(scope);
    for (let place = 0; place < n; place++) {
      visit(place, at);
      for (let i = scope.length - 1; i >= 0; i--) {
        const wraps = ++state[i] === size[scope[i]];
        for (let f = 0; f < steps.length; f++) at[f] += steps[f][i] * (wraps ? 1 - state[i] : 1);
        if (!wraps) break;
        state[i] = 0;
      }
    }
  }

  // The product of factors, with ``out`` summed out (null: nothing).
  const product = (factors, out) => {
    const scope = [...new Set(factors.flatMap(f => f.scope))].filter(v => v !== out);
    const all = out === null ? scope : [...scope, out];
    const inner = out === null ? 1 : size[out], values = new Float64Array(count(scope));
    const steps = factors.map(f => {
      const own = strides(f.scope);
      return all.map(v => (f.scope.includes(v) ? own[f.scope.indexOf(v)] : 0));
    });
    walk(all, steps, (place, at) => {
      let value = 1;
      for (let f = 0; f < factors.length; f++) value *= factors[f].values[at[f]];
      values[(place / inner) | 0] += value;
    });
    return { scope, values };
  };

  // Sums out all but ``target`` (null: all); the next variable is always the one with the smallest table.
  // Every table is divided by its largest number, so that nothing underflows; ``log`` is that of what was taken.
  const eliminate = (target, evidence) => {
    const kept = ancestors([...(target === null ? [] : [target]), ...evidence.keys()]);
    let factors = [...kept].map(v => factor(v, evidence)), log = 0;
    const left = new Set([...kept].filter(v => v !== target && !evidence.has(v)));
    const scaled = found => {
      const top = found.values.reduce((a, b) => Math.max(a, b), 0);
      if (top === 0) return null;
      log += Math.log(top);
      return { scope: found.scope, values: found.values.map(x => x / top) };
    };
    while (left.size) {
      let best = null, least = Infinity;
      for (const v of left) {
        const joined = new Set(factors.filter(f => f.scope.includes(v)).flatMap(f => f.scope));
        const cost = count([...joined]);
        if (cost < least) { least = cost; best = v; }
      }
      left.delete(best);
      const found = scaled(product(factors.filter(f => f.scope.includes(best)), best));
      if (found === null) return null;
      factors = [...factors.filter(f => !f.scope.includes(best)), found];
    }
    const last = scaled(product(factors, null));
    return last === null ? null : { values: last.values, log };
  };

  return {
    // log P(evidence), -Infinity where it is impossible
    logProbability(evidence) {
      return eliminate(null, evidence)?.log ?? -Infinity;
    },
    // the distribution of each variable, or null if the evidence is impossible
    marginals(evidence) {
      const all = [];
      for (let v = 0; v < size.length; v++) {
        if (evidence.has(v)) {
          all.push(network.states[v].map((_, s) => (s === evidence.get(v) ? 1 : 0)));
          continue;
        }
        const found = eliminate(v, evidence);
        if (found === null) return null;
        const sum = found.values.reduce((a, b) => a + b, 0);
        all.push(Array.from(found.values, x => x / sum));
      }
      return all;
    },
  };
}
