"""node on loam: buffers, JSON, streams, compression, hashes, worker threads, child processes.

One script is run with and without the preload; what it prints must be equal. node keeps most of
JavaScript's own objects in memory that it maps itself; what comes from malloc is buffers' contents,
libuv, zlib, OpenSSL and the compiler of WebAssembly and JavaScript, on all threads.
"""

import preload

SCRIPT = r"""
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'),
  fs = require('fs'), path = require('path');
const { execFile } = require('child_process');
const { pipeline, Readable } = require('stream');
const { promisify } = require('util');
const md5 = (data) => crypto.createHash('md5').update(data).digest('hex');

// The same numbers every time.
function numbers(seed) { return () => (seed = (Math.imul(seed, 48271) >>> 0) % 2147483647); }

function churn(seed, rounds) {
  const next = numbers(seed), live = [], hash = crypto.createHash('sha256');
  for (let i = 0; i < rounds; i++) {
    const size = next() % 3 ? next() % 600 : next() % 100000;
    const buffer = Buffer.alloc(size, i & 255);
    if (live.length < 300) live.push(buffer);
    else { const at = next() % 300; hash.update(live[at]); live[at] = buffer; }
  }
  for (const buffer of live) hash.update(buffer);
  return hash.digest('hex');
}

if (!isMainThread) {
  const shared = new Int32Array(workerData.shared);
  for (let i = 0; i < 1000; i++) Atomics.add(shared, 0, 1);
  const result = churn(workerData.seed, 3000), block = new Uint8Array(100000).fill(workerData.seed);
  parentPort.postMessage({ result, block }, [block.buffer]);
  return;
}

async function main() {
  fs.writeFileSync(process.env.MAPS_COPY, fs.readFileSync('/proc/self/maps'));

  console.log('buffers', churn(1, 20000));
  let joined = Buffer.alloc(0);
  for (let i = 0; i < 500; i++) joined = Buffer.concat([joined, Buffer.from('piece ' + i)]);
  console.log('concat', joined.length, md5(joined));
  const outside = []; // ArrayBuffers, freed by the collector
  for (let i = 0; i < 3000; i++) {
    outside.push(new ArrayBuffer(1 << (i % 17)));
    if (outside.length > 50) outside.shift();
  }

  const rows = Array.from({ length: 30000 }, (_, i) => ({ id: i, name: 'n' + i,
    tags: ['a' + i % 7, 'b' + i % 11],
    deep: { x: i / 3, t: 'é'.repeat(i % 9) } }));
  const text = JSON.stringify(rows), back = JSON.parse(text);
  console.log('json', text.length, md5(text),
    back[12345].tags.join(), md5(JSON.stringify(structuredClone(back))));
  const map = new Map(); for (let i = 0; i < 200000; i++) map.set('k' + i * 7 % 100003, i);
  console.log('map', map.size, [...text.matchAll(/"id":(\d+)9,/g)].length);

  const packed = zlib.gzipSync(text, { level: 6 });
  const brotli = zlib.brotliCompressSync(text.slice(0, 300000),
    { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } });
  console.log('zlib', zlib.gunzipSync(packed).toString() === text,
    zlib.brotliDecompressSync(brotli).length);
  const many = await Promise.all(Array.from({ length: 64 }, (_, i) =>
    promisify(zlib.deflate)(text.slice(i * 1000, i * 1000 + 50000))));
  console.log('deflate', many.map((b) => zlib.inflateSync(b).length).reduce((a, b) => a + b));
  const keys = await Promise.all(Array.from({ length: 16 }, (_, i) =>
    promisify(crypto.pbkdf2)('secret' + i, 'salt', 500, 64, 'sha512')));
  console.log('pbkdf2', md5(Buffer.concat(keys)));
  const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const signed = crypto.sign('sha256', Buffer.from(text), privateKey);
  console.log('sign', crypto.verify('sha256', Buffer.from(text), publicKey, signed));

  const file = path.join(process.env.TMPDIR, 'stream.' + process.pid + '.gz');
  await promisify(pipeline)(Readable.from(rows.map((r) => r.name + '\n')), zlib.createGzip(),
    fs.createWriteStream(file));
  const chunks = [];
  for await (const chunk of fs.createReadStream(file).pipe(zlib.createGunzip())) chunks.push(chunk);
  fs.unlinkSync(file); console.log('stream', md5(Buffer.concat(chunks)));

  const shared = new SharedArrayBuffer(4096);
  for (let round = 0; round < 3; round++) {
    const results = await Promise.all(Array.from({ length: 4 },
      (_, i) => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: { seed: round * 4 + i + 1, shared } });
      let got; worker.on('message', (message) => { got = message; }); worker.on('error', reject);
      worker.on('exit', (code) =>
        (code ? reject(new Error('worker ended with ' + code)) : resolve(got)));
    })));
    console.log('workers', results.map((r) => r.result.slice(0, 8) + r.block[99999]).join(' '));
  }
  console.log('shared', new Int32Array(shared)[0]);
  const looping = new Worker('require("worker_threads").parentPort.postMessage(1); ' +
    'for (let a = [];;) { a.push(Buffer.alloc(5000)); if (a.length > 500) a = []; }',
    { eval: true });
  await new Promise((resolve) => looping.once('message', resolve));
  console.log('terminated', await looping.terminate());

  // (module (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add))
  const wasm = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1,
    96, 2, 127, 127, 1, 127, 3, 2, 1, 0,
    7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11]);
  let sum = 0;
  for (let i = 0; i < 20; i++)
    sum = (await WebAssembly.instantiate(wasm)).instance.exports.add(sum, i);
  console.log('wasm', sum);

  const children = await Promise.all(Array.from({ length: 3 }, (_, i) =>
    promisify(execFile)(process.execPath,
      ['-e', `console.log(Buffer.alloc(100000, ${i}).reduce((a, b) => a + b))`])));
  console.log('children', children.map((c) => c.stdout.trim()).join(' '));
  console.log('end');
}
main().catch((error) => { console.error(error); process.exit(1); });
"""


def test(bench):
    node = bench.need("node")
    script = bench.write("script.js", SCRIPT)
    out = bench.twice([node, script], "the script")
    preload.expect(out.endswith(b"end\n"), "the script did not reach its end")
    bench.answers([node, "-e", "Buffer.alloc(100000)"], ["node"])


preload.main(test)
