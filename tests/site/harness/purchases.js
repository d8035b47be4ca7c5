// Cards and what is bought with them, by the API of companies and the door of the card network.

import assert from 'node:assert/strict';

/** Where things are bought unless a test says otherwise. */
export const MERCHANT = {
  mid: 4711,
  mcc: 5812,
  name: 'Luigi’s Trattoria',
  city: 'Oakland',
  state: 'CA',
  country: 'US',
  zip: '94601',
};

async function send(url, method, headers, body) {
  const all = { ...headers, 'content-type': 'application/json' };
  const response = await fetch(url, { method, headers: all, body: JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${url}: ${response.status} ${text}`);
  return text === '' ? null : JSON.parse(text);
}

/** Changes something by `/v1`, with the token that `init` makes. */
export function change(stage, method, path, body) {
  const { access_token: token } = stage.installation.credentials;
  return send(`${stage.url}${path}`, method, { authorization: `Token ${token}` }, body);
}

/** Says something on behalf of the card network. */
export function tell(stage, operation, body) {
  const { network_key: key } = stage.installation.credentials;
  return send(`${stage.url}/network/v1/${operation}`, 'POST', { authorization: `Bearer ${key}` }, body);
}

/** Orders a virtual card. */
export function order(stage, { description = 'Team lunches', amount = 200, ...rest } = {}) {
  return change(stage, 'POST', '/v1/cards', { description, is_virtual: true, allowance: { amount }, ...rest });
}

/** Buys something; the answer says whether that was approved. */
export function buy(stage, card, amount, rest = {}) {
  return tell(stage, 'authorizations', { card_id: card.id, amount, merchant: MERCHANT, ...rest });
}

/** The member with this email address. */
export async function memberOf(stage, email) {
  const { access_token: token } = stage.installation.credentials;
  const headers = { authorization: `Token ${token}` };
  const response = await fetch(`${stage.url}/v1/members?email=${encodeURIComponent(email)}`, { headers });
  return (await response.json()).results[0];
}
