// The recording at work: its rows, what is picked, and edits, which go to the server one after the other.
import { $, ask } from "./basics.js";

export class Desk {
  constructor(silences, changed, stale, say) {
    Object.assign(this, { silences: new Set(silences), changed, stale, say });
    this.id = null;
    this.phones = [];
    this.words = [];
    this.duration = 0;
    this.queue = Promise.resolve();
    this.clear();
  }

  clear() { this.picked = this.selection = this.cursor = this.playing = null; this.held = this.hovered = 0; this.lately = null; }

  isSilence(label) { return this.silences.has(label.trim().toLowerCase()); }
  pickedRow() { return this.picked ? this[this.picked.tier][this.picked.index] : null; }

  take(id, content, tiles) {
    Object.assign(this, { id, tiles, phones: content.phones, words: content.words, duration: content.duration, rate: content.rate,
      version: content.version, undo: content.undo, redo: content.redo, state: content.state, flags: content.flags, name: content.name });
    this.doubts = null;
  }

  worst() {  // the least sure starts, for the view of the whole
    if (!this.doubts) {
      this.doubts = this.phones.filter((p, k) => k > 0 && p[3] !== null).sort((p, q) => p[3] - q[3] || p[0] - q[0]);
      this.least = this.doubts.filter(p => p[3] < .5).slice(0, 300);
    }
    return this.least;
  }

  doubtful(forth) {  // the boundary after (before) the last one visited, in the order of doubt; 0 if there is none
    this.worst();
    const after = (p, [sure, start]) => p[3] - sure || p[0] - start, { doubts } = this;
    if (!doubts.length) return 0;
    let row = forth ? doubts[0] : doubts.at(-1);
    if (this.lately) row = (forth ? doubts.find(p => after(p, this.lately) > 0) : doubts.findLast(p => after(p, this.lately) < 0)) || row;
    this.lately = [row[3], row[0]];
    return this.phones.indexOf(row);
  }

  // An edit is shown at once if ``preview`` did so, and is replaced by what the server says. ``revert`` takes the preview back.
  edit(edit, revert) { return this.send("edit", { edit }, revert); }

  send(step, content, revert = () => {}) {
    const { id } = this;
    const done = this.queue.then(async () => {
      if (id !== this.id) return false;
      $("saved").textContent = "saving …";
      try {
        const answer = await ask(`/api/recordings/${id}/${step}`, { version: this.version, ...content });
        if (id !== this.id) return true;
        revert();
        for (const tier of ["phones", "words"]) this[tier].splice(answer[tier].at, answer[tier].removed, ...answer[tier].rows);
        Object.assign(this, { version: answer.version, undo: answer.undo, redo: answer.redo, state: answer.summary.state });
        this.doubts = null;
        if (this.picked && this.picked.index >= this[this.picked.tier].length) this.picked = null;
        $("saved").textContent = `saved ${new Date().toLocaleTimeString()} · ${this.name.replace(/\.[^.]*$/, "")}.TextGrid`;
        this.changed(answer.summary);
        return true;
      } catch (error) {
        revert();
        $("saved").textContent = "not saved";
        this.say(error.message);
        await this.stale(error);
        return false;
      }
    });
    this.queue = done.catch(() => {});
    return done;
  }
}
