// Crawls, and puts each product into a queue of a running master: node producer.mjs
import { readFileSync } from 'node:fs';
import { connect, crawl } from 'orbweaver';

const authkey = readFileSync('orb-data/authkey', 'utf8').trim();
const master = await connect({ host: '127.0.0.1', port: 6666, authkey });
const products = master.queue('products');
const fields = { name: 'h1', price: { css: 'b', type: 'number' } };
const options = { data: 'producer-data', out: 'producer-out', maxDepth: 0, kinds: ['item'] };
const seeds = 'http://127.0.0.1:8124/list/{1..10}';
for await (const { id, item } of crawl(seeds, { ...options, items: { product: { fields } } })) {
  // The queue has it before the crawl counts it as done.
  await products.put({ id, ...item });
}
await products.put({ over: true });
await master.close();
