// Sound by pieces: each is a range of bytes of the recording as WAV (16 bits, 44 bytes of header), scheduled exactly
// after the one before it, so that a whole hour plays without being loaded.
const PIECE = 4, AHEAD = 6;  // seconds

export class Player {
  constructor(moved) {
    this.moved = moved;  // called with the time that is heard, or null
    this.context = null;
    this.turn = 0;
  }

  get isPlaying() { return this.now !== undefined && this.now !== null; }

  async play(id, rate, from, to) {
    this.stop();
    const turn = ++this.turn;
    this.context = this.context || new AudioContext();
    await this.context.resume();
    this.sources = [];
    this.now = from;
    let due = null, t = from;
    try {
      while (t < to && turn === this.turn) {
        const until = Math.min(to, t + (t === from ? Math.min(1, PIECE) : PIECE)), buffer = await this.fetch(id, rate, t, until);
        if (turn !== this.turn) return;
        if (!buffer) break;
        const source = this.context.createBufferSource();
        source.buffer = buffer;
        source.connect(this.context.destination);
        if (due === null) {
          due = this.context.currentTime + .02;
          this.began = due - from;
          this.follow(turn, to);
        }
        source.start(due);
        this.sources.push(source);
        due += buffer.duration;
        t = until;
        while (due - this.context.currentTime > AHEAD && turn === this.turn) await new Promise(done => setTimeout(done, 200));
      }
    } catch {
      if (turn === this.turn) this.stop();
    }
  }

  async fetch(id, rate, from, to) {
    const first = Math.round(from * rate), last = Math.max(first + 1, Math.round(to * rate));
    const answer = await fetch(`/api/recordings/${id}/sound.wav`, { headers: { range: `bytes=${44 + 2 * first}-${43 + 2 * last}` } });
    if (answer.status !== 206) return null;
    const samples = new Int16Array(await answer.arrayBuffer()), buffer = this.context.createBuffer(1, samples.length, rate);
    const channel = buffer.getChannelData(0), fade = Math.min(32, samples.length >> 1);
    for (let i = 0; i < samples.length; i++) channel[i] = samples[i] / 32768;
    this.played = [from, to];
    return fade ? buffer : null;
  }

  follow(turn, to) {
    if (turn !== this.turn) return;
    const t = this.context.currentTime - this.began;
    if (t >= to) return this.stop();
    this.now = t;
    this.moved(Math.max(t, 0));
    requestAnimationFrame(() => this.follow(turn, to));
  }

  stop() {
    this.turn++;
    for (const source of this.sources || []) try { source.stop(); } catch { /* it has not begun */ }
    this.sources = [];
    this.now = null;
    this.moved(null);
  }
}
