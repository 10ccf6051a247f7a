// Raw scores of a model that make.py has written, in browsers and in Node.

const BASE = 1 << 16; // the module's own memory lies below

/**
 * Return a function from rows to raw scores.
 *
 * read(name) returns the bytes of a file of the folder, or a promise of them.
 * The function takes an array of rows, each an array of numbers in the order of its `features`
 * (NaN is missing), and returns an array of Float64Array, one for each output.
 */
export async function load(read) {
  const text = new TextDecoder().decode(await read("model.json"));
  const model = JSON.parse(text);
  const tables = new Uint8Array(await read("tables.bin"));
  const { instance } = await WebAssembly.instantiate(await read("predict.wasm"));
  const { memory, predict } = instance.exports;
  const { features, block, steps } = model;

  // The tables, room for a block of rows and its scores, scratch space, the arguments.
  let end = BASE + tables.length;
  const room = (words) => {
    const start = Math.ceil(end / 64) * 64;
    end = start + 8 * words;
    return start;
  };
  const place = {
    rows: room(block * features.length),
    scores: room(model.scores),
    space: room(model.space),
  };
  const given = room(model.arguments.length + 1);
  const missing = end + 65536 - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  new Uint8Array(memory.buffer).set(tables, BASE);
  const words = new BigInt64Array(memory.buffer, given, model.arguments.length);
  model.arguments.forEach((word, i) => {
    if (Array.isArray(word)) words[i] = BigInt(BASE + word[0]);
    else if (word !== "stop") words[i] = BigInt(place[word] ?? word);
  });
  const stop = model.arguments.indexOf("stop");
  const rows = new Float64Array(memory.buffer, place.rows, block * features.length);
  const scores = new Float64Array(memory.buffer, place.scores, model.scores);

  const score = (values) => {
    const found = model.base_score.map(() => new Float64Array(values.length));
    for (let first = 0; first < values.length; first += block) {
      const part = values.slice(first, first + block);
      part.forEach((row, i) => rows.set(row, i * features.length));
      const at = (i, k) => i * steps[0] + k * steps[1];
      part.forEach((_, i) => model.base_score.forEach((start, k) => (scores[at(i, k)] = start)));
      words[stop] = BigInt(part.length);
      predict(given);
      part.forEach((_, i) => found.forEach((one, k) => (one[first + i] = scores[at(i, k)])));
    }
    return found;
  };
  return Object.assign(score, { features });
}
