// Creates a card, buys with it, receives the webhook, and handles a decline. Node.js 20.

import { randomUUID } from 'node:crypto';
import { EventEmitter, on, once } from 'node:events';
import { createServer } from 'node:http';

import createClient from 'openapi-fetch';
import { Webhook } from 'standardwebhooks';

const { CARDSWITCH_URL: baseUrl, CARDSWITCH_ACCESS_TOKEN: token, CARDSWITCH_NETWORK_KEY: key } = process.env;

/** @type {import('openapi-fetch').Client<import('./client/company.d.ts').paths>} */
const company = createClient({ baseUrl, headers: { authorization: `Token ${token}` } });
/** @type {import('openapi-fetch').Client<import('./client/network.d.ts').paths>} */
const network = createClient({ baseUrl, headers: { authorization: `Bearer ${key}` } });

/** Repeat a request whose answer is lost with the same key: it takes effect once. */
const fresh = () => ({ header: { 'Idempotency-Key': randomUUID() } });

/**
 * What was answered.
 * @template T
 * @param {{ data?: T, error?: { detail: { message: string } } }} answer
 * @returns {NonNullable<T>}
 */
function taken({ data, error }) {
  if (error || !data) throw new Error(error?.detail.message);
  return data;
}

/**
 * What a card network asks at a merchant. Declines are answers, not errors.
 * @param {{ id: string }} card
 * @param {number} amount
 */
async function buy(card, amount) {
  const merchant = { name: 'Corner Bakery', mcc: '5812' };
  const body = { card_id: card.id, amount, merchant };
  const answer = taken(await network.POST('/network/v1/authorizations', { body }));
  if (!('transaction_id' in answer)) throw new Error('an inquiry was answered');
  console.log(`${answer.approved ? 'approved' : 'declined'}: ${amount.toFixed(2)}`);
  return answer;
}

/** Takes webhooks whose signature is right, each an array of events. */
const received = new EventEmitter();
/** @type {Webhook | undefined} */
let verifier;
const receiver = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  try {
    const headers = /** @type {Record<string, string>} */ (request.headers);
    const events = verifier?.verify(Buffer.concat(pieces).toString(), headers);
    for (const event of /** @type {any[]} */ (events)) received.emit('event', event);
    response.writeHead(204).end();
  } catch {
    response.writeHead(400).end();
  }
});
receiver.listen(0, '127.0.0.1');
await once(receiver, 'listening');
const { port } = /** @type {import('node:net').AddressInfo} */ (receiver.address());
const delivery_url = `http://127.0.0.1:${port}/hooks`;
const endpoint = taken(await company.POST('/v1/webhook-endpoints', { body: { delivery_url } }));
verifier = new Webhook(/** @type {string} */ (endpoint.secret));
const events = on(received, 'event');

const allowance = { amount: 50, interval: /** @type {const} */ ('weekly') };
const lunches = { description: 'Lunches', is_virtual: true, allowance };
const card = taken(await company.POST('/v1/cards', { body: lunches, params: fresh() }));
console.log(`card: ${card.description}`);

const bought = await buy(card, 24.5);
for await (const [event] of events) {
  if (event.transaction.id !== bought.transaction_id) continue;
  const path = { transaction_id: event.transaction.id };
  const { state, amount } = taken(await company.GET('/v1/transactions/{transaction_id}', { params: { path } }));
  console.log(`webhook: ${event.event}, ${state} ${amount.toFixed(2)}`);
  break;
}

const declined = await buy(card, 100);
const path = { transaction_id: /** @type {string} */ (declined.transaction_id) };
const decision = taken(await company.GET('/v1/transactions/{transaction_id}/decision', { params: { path } }));
for (const { rule, change, text } of decision.least_change) {
  console.log(`advice: ${text}`);
  if (rule !== 'allowance_balance' || change.type !== 'raise') continue;
  const raised = { params: { path: { allowance_id: card.allowance.id }, ...fresh() }, body: { amount: change.to } };
  taken(await company.PUT('/v1/allowances/{allowance_id}', raised));
}
await buy(card, 100);

const debts = { ...lunches, allowance: { ...allowance, amount: -1 } };
const { error } = await company.POST('/v1/cards', { body: debts, params: fresh() });
if (error) console.log(`refused: ${error.detail.code}, see ${baseUrl}${error.detail.doc_url}`);

const of = { params: { path: { webhook_endpoint_id: endpoint.id } } };
await company.DELETE('/v1/webhook-endpoints/{webhook_endpoint_id}', of);
receiver.close();
