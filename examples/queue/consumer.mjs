// Takes products from the queue until the producer is done: node consumer.mjs
import { readFileSync } from 'node:fs';
import { connect } from 'orbweaver';

const authkey = readFileSync('orb-data/authkey', 'utf8').trim();
const master = await connect({ host: '127.0.0.1', port: 6666, authkey });
const products = master.queue('products');
const seen = new Set();
let sum = 0;
while (true) {
  const product = await products.get({ timeoutMs: 60_000 });
  if (product === undefined || product.over) break;
  // After a crash of the producer an item may come again, with the same id.
  if (seen.has(product.id)) continue;
  seen.add(product.id);
  sum += product.price;
}
console.log(`${seen.size} products for ${sum}`);
await master.close();
