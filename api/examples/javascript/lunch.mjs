// Creates a card, buys with it, follows the event, and handles a decline. Node.js 20, no packages.

import { randomUUID } from 'node:crypto';

const { CARDSWITCH_URL: url, CARDSWITCH_ACCESS_TOKEN: token, CARDSWITCH_NETWORK_KEY: key } = process.env;

/** A failed request; `detail` has `code`, `message`, `param`, `errors` and `doc_url`. */
class ApiError extends Error {
  constructor(detail) {
    super(detail.message);
    this.detail = detail;
  }
}

async function ask(method, path, body, authorization = `Token ${token}`) {
  const headers = { authorization, 'content-type': 'application/json' };
  // Repeat a request whose answer is lost with the same key: it takes effect once.
  if (method !== 'GET') headers['idempotency-key'] = randomUUID();
  const response = await fetch(`${url}${path}`, { method, headers, body: body && JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new ApiError(answer.detail);
  return answer;
}

/** What a card network asks at a merchant. Declines are answers, not errors. */
async function buy(card, amount) {
  const body = { card_id: card.id, amount, merchant: { name: 'Corner Bakery', mcc: '5812' } };
  const answer = await ask('POST', '/network/v1/authorizations', body, `Bearer ${key}`);
  console.log(`${answer.approved ? 'approved' : 'declined'}: ${amount.toFixed(2)}`);
  return answer;
}

const allowance = { amount: 50, interval: 'weekly' };
const card = await ask('POST', '/v1/cards', { description: 'Lunches', is_virtual: true, allowance });
console.log(`card: ${card.description}`);

const bought = await buy(card, 24.5);
const { results } = await ask('GET', `/v1/events?since=${card.created_at}&wait_s=20`);
const event = results.find(({ transaction }) => transaction.id === bought.transaction_id);
const transaction = await ask('GET', `/v1/transactions/${event.transaction.id}`);
console.log(`event: ${event.event}, ${transaction.state} ${transaction.amount.toFixed(2)}`);

const declined = await buy(card, 100);
const decision = await ask('GET', `/v1/transactions/${declined.transaction_id}/decision`);
for (const { rule, change, text } of decision.least_change) {
  console.log(`advice: ${text}`);
  if (rule === 'allowance_balance') await ask('PUT', `/v1/allowances/${card.allowance.id}`, { amount: change.to });
}
await buy(card, 100);

try {
  await ask('POST', '/v1/cards', { description: 'Debts', is_virtual: true, allowance: { amount: -1 } });
} catch (error) {
  console.log(`refused: ${error.detail.code}, see ${url}${error.detail.doc_url}`);
}
