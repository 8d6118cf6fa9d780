'use strict';
// Where plays come from: the file itself, the server, a running demonstration, or the simulated
// world. What the page was given says which: {file, live}, see page.go.

const given = JSON.parse(byId('given').textContent);

/** unpacked decompresses base64 of gzip. */
async function unpacked(id) {
  const packed = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip')));
}

/** wanted is what the URL says behind its #: a token, which the server has printed, or a lesson. */
const wanted = (name) => new URLSearchParams(location.hash.slice(1)).get(name);

/** keepToken moves a token from the URL to what is this tab's and port's only, and says if there is one. */
function keepToken() {
  const token = wanted('token');
  if (given.static || !token) return false;
  sessionStorage.setItem('token', token);
  history.replaceState(null, '', location.pathname);
  return true;
}

/** request asks the server for what only its user may have. */
async function request(path, signal) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${sessionStorage.getItem('token')}` }, signal });
  if (!answer.ok) throw Object.assign(new Error(`${path}: ${answer.status} ${(await answer.text()).slice(0, 200)}`), { refused: true });
  return answer;
}

/** ask gets JSON of the server. */
const ask = async (path) => (await request(path)).json();

/** arriving yields lines of JSON until the connection ends. An EventSource would send no token. */
async function* arriving(path, signal) {
  try {
    const reader = (await request(path, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) yield JSON.parse(line);
    }
  } catch (e) {
    if (e.refused) throw e;
  }
}

/** AGAIN is after how many milliseconds the page asks again for a connection that has ended. */
const AGAIN = 1000;

/** fileSource is a capture: inside of this file, or with the server, which has it in windows. */
const fileSource = {
  async play(from, wrong, filter) {
    if (given.static) return (await unpacked('capture')).json();
    return ask(`play?from=${from || 0}&wrong=${wrong ? 1 : 0}&filter=${encodeURIComponent(filter || '')}`);
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
  /** follow calls back with what is newer than packet newest(); it returns how to stop that. */
  follow(newest, added) {
    const end = new AbortController();
    const go = async () => {
      while (!end.signal.aborted) {
        for await (const more of arriving(`events?after=${newest()}`, end.signal)) added(more);
        await new Promise((again) => setTimeout(again, AGAIN));
      }
    };
    go().catch((e) => say('Nothing more comes: ' + (e.message || e)));
    return () => end.abort();
  },
};

/** world is the simulated world, once it has started. */
let world = null;

/** startWorld loads the program of the simulated world, which puts rocePlay and roceLessons here. */
async function startWorld() {
  if (world) return world;
  const go = new Go();
  const code = given.static ? await (await unpacked('world')).arrayBuffer() : await (await fetch('world.wasm')).arrayBuffer();
  const { instance } = await WebAssembly.instantiate(code, go.importObject);
  await new Promise((ready) => {
    globalThis.roceReady = ready;
    go.run(instance).then(() => {
      world = null; // it has failed: the next lesson starts another
    });
  });
  world = {
    lessons: JSON.parse(globalThis.roceLessons()),
    /** play returns {lesson, play, told, untrue}. */
    play(name, changes) {
      const answer = JSON.parse(globalThis.rocePlay(name, JSON.stringify(changes)));
      if (answer.error) throw new Error(answer.error);
      return answer;
    },
  };
  return world;
}
