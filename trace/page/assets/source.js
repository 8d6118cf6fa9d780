'use strict';
// Where plays come from: the file itself, the server, a running demonstration, or the simulated
// world. What the page was given says which: {file, live}, see page.go.

const given = JSON.parse(byId('given').textContent);

/** unpacked decompresses base64 of gzip. */
async function unpacked(id) {
  const packed = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip')));
}

/** ask gets JSON of the server. */
async function ask(path) {
  const answer = await fetch(path, { credentials: 'same-origin' });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${(await answer.text()).slice(0, 200)}`);
  return answer.json();
}

/** fileSource is a capture: inside of this file, or with the server, which has it in windows. */
const fileSource = {
  async play(from, wrong) {
    if (given.static) return (await unpacked('capture')).json();
    return ask(`play?from=${from || 0}&wrong=${wrong ? 1 : 0}`);
  },
  async detail(p) {
    return p.fields ? p : { ...p, ...(await ask(`packet?of=file&n=${p.n}&part=${p.part || 0}`)) };
  },
};

/** liveSource is a running demonstration. */
const liveSource = {
  async play() {
    return ask('live');
  },
  async detail(p) {
    return p.fields ? p : { ...p, ...(await ask(`packet?of=live&n=${p.n}`)) };
  },
  /** follow calls back with new packets; it returns how to stop that. */
  follow(added) {
    const stream = new EventSource('events');
    stream.addEventListener('packets', (e) => added(JSON.parse(e.data)));
    return () => stream.close();
  },
};

/** world is the simulated world, once it has started. */
let world = null;

/** startWorld loads the program of the simulated world, which puts rocePlay and roceLessons here. */
async function startWorld() {
  if (world) return world;
  const go = new Go();
  const code = given.static ? await (await unpacked('world')).arrayBuffer() : await (await fetch('world.wasm', { credentials: 'same-origin' })).arrayBuffer();
  const { instance } = await WebAssembly.instantiate(code, go.importObject);
  await new Promise((ready) => {
    globalThis.roceReady = ready;
    go.run(instance).then(() => {
      world = null; // it has failed: the next lesson starts another
    });
  });
  world = {
    lessons: JSON.parse(globalThis.roceLessons()),
    /** play returns {lesson, play, differs}. */
    play(name, changes) {
      const answer = JSON.parse(globalThis.rocePlay(name, JSON.stringify(changes)));
      if (answer.error) throw new Error(answer.error);
      return answer;
    },
  };
  return world;
}
