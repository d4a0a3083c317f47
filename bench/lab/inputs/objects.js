// node's share of the lab. The argument is the number of entries. V8 keeps JavaScript's objects in
// a heap of its own; malloc serves what lies outside it: the bytes of every Buffer and typed array,
// zlib's and the parsers' working memory, the compiler's zones, the tables of maps. So most of this
// is buffers of many sizes that live for a while, packed and unpacked; strings, JSON and maps are
// there because no program is without. zlib runs synchronously, so no thread pool takes part.
// Prints counts and sums.
"use strict";
const zlib = require("node:zlib");
const size = Number(process.argv[2]);

let state = 12345;
function random(bound) {
  state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
  return (state >>> 8) % bound;
}

// Buffers past V8's pool (4 KiB), each its own block; a window of them is alive.
const window = [];
let bytes = 0;
for (let i = 0; i < size * 4; i++) {
  const at = random(400);
  const array = new Uint8Array(200 + random(i % 50 === 0 ? 60000 : 3000));
  array[0] = i & 255;
  array[array.length - 1] = 1;
  if (window[at]) bytes += window[at].length + window[at][0];
  window[at] = array;
}
console.log("buffers", bytes);

// Records through JSON, packed and unpacked.
let packed = 0;
let check = 0;
for (let i = 0; i < size / 50; i++) {
  const records = [];
  for (let j = 0; j < 20; j++) {
    records.push({ id: i * 20 + j, name: "n" + ((i * 7919 + j) % 1009), tags: ["a" + j, "b" + i] });
  }
  const text = Buffer.from(JSON.stringify(records));
  const small = zlib.deflateRawSync(text, { level: 1 });
  packed += small.length;
  check += JSON.parse(zlib.inflateRawSync(small).toString())[7].id;
}
console.log("packed", packed, check);

// A map of strings, with neighbours removed while it grows.
const map = new Map();
for (let i = 0; i < size * 4; i++) {
  const key = "k" + ((i * 7919) % 200003);
  map.set(key, (map.get(key) || 0) + i);
  if (i % 3 === 0) map.delete("k" + ((i * 31) % 200003));
}
let sum = 0;
for (const value of map.values()) sum = (sum + value) % 1000000007;
console.log("map", map.size, sum);
