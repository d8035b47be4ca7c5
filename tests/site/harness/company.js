// A company in the middle of its life: people, dimensions, cards in every state, purchases that went
// every way, and what waits for somebody. Pages are worth looking at with something on them.

import { Api, buy, makeCard } from './api.js';

/** The smallest picture there is. */
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

const PLACES = [
  ['Harbor Grocery', 5411, 48.2],
  ['Blue Bottle Coffee', 5814, 6.75],
  ['Northwind Air', 4511, 389],
  ['Café Müller', 5812, 62.4],
  ['東京書店', 5942, 21.99],
  ['Lakeside Hotel', 7011, 240],
];

/** Fills the first company of `stage`; `member` is the e-mail address of somebody who holds cards. */
export async function furnish(stage, member) {
  const api = new Api(stage);
  const holder = (await api.get('/v1/members?limit=100')).results.find(({ email }) => email === member);
  const people = await addPeople(api);
  const dimensions = await addDimensions(api);
  const assigned_to = { id: holder.id };
  const cards = await addCards(api, assigned_to, dimensions);
  await addTransactions(api, cards);
  const requisitions = await addRequisitions(api, [holder, ...people]);
  const links = await addLinks(api, cards);
  // Nobody listens there: what was tried is on the page.
  await api.post('/v1/webhook-endpoints', { delivery_url: 'http://127.0.0.1:9/hooks', description: 'Books' });
  const transactions = (await api.get('/v1/transactions?limit=100')).results;
  return { api, holder, people, dimensions, cards, requisitions, links, transactions };
}

function addPeople(api) {
  const people = [['grace@example.com', 'Grace', 'Hopper', 'member'], ['alan@example.com', 'Alan', 'Turing', 'reviewer']];
  const add = ([email, first_name, last_name, role]) => api.post('/v1/members', { email, first_name, last_name, role });
  return Promise.all(people.map(add));
}

async function addDimensions(api) {
  const travel = await api.post('/v1/categories', { name: 'Travel', code: '6000' });
  const flights = await api.post('/v1/categories', { name: 'Flights', code: '6010', parent: { id: travel.id } });
  const meals = await api.post('/v1/categories', { name: 'Meals' });
  const department = await api.post('/v1/departments', { name: 'Research' });
  const label = await api.post('/v1/labels', { name: 'Offsite 2026' });
  const location = await api.post('/v1/locations', { name: 'Austin' });
  return { travel, flights, meals, department, label, location };
}

async function addCards(api, assigned_to, { meals, department }) {
  const tagged = { category: { id: meals.id }, department: { id: department.id } };
  const monthly = { amount: 2500, interval: 'monthly', daily_limit: 1000, transaction_limit: 600 };
  const lunch = await makeCard(api, { description: 'Team lunch', assigned_to, ...tagged, allowance: monthly });
  const travel = await makeCard(api, { description: 'Travel', assigned_to, allowance: { amount: 5000 } });
  const once = { amount: 75, single_use: true, end_time: '2036-01-01T00:00:00Z', scope: [5812, 5411] };
  const single = await makeCard(api, { description: 'Farewell gift', allowance: once });
  const suspended = await makeCard(api, { description: 'Old subscription' });
  await api.put(`/v1/cards/${suspended.id}`, { state: 'suspended' });
  const closed = await makeCard(api, { description: 'Conference 2025' });
  await api.delete(`/v1/cards/${closed.id}`);
  const shipping_address = { address_1: '1 Main St', city: 'Austin', state: 'TX', zip_code: '78701' };
  const physical = await makeCard(api, { description: 'Workshop', is_virtual: false, shipping_address, assigned_to });
  return { lunch, travel, single, suspended, closed, physical };
}

async function addTransactions(api, { lunch, travel, single, suspended }) {
  const bought = [];
  for (const [name, mcc, amount] of PLACES) bought.push(await buy(api, amount > 100 ? travel : lunch, amount, { name, mcc }));
  for (const { transaction_id } of bought.slice(0, 3)) await api.network('/presentments', { transaction_id });
  await api.network('/reversals', { transaction_id: bought[4].transaction_id });
  await api.network('/refunds', { transaction_id: bought[1].transaction_id, amount: 2.5 });
  await buy(api, lunch, 5000, { name: 'Watches & More', mcc: 5944 });
  await buy(api, suspended, 9.99, { name: 'Streaming Service', mcc: 5968 });
  await buy(api, single, 40, { name: 'Casino Royale', mcc: 7995 });
  const [first] = (await api.get('/v1/transactions?limit=1&ordering=created_at')).results;
  await api.put(`/v1/transactions/${first.id}`, { note: 'Fruit for the office' });
  const file = new FormData();
  file.append('file', new Blob([PNG], { type: 'image/png' }), 'receipt.png');
  await api.ask('POST', `/v1/transactions/${first.id}/receipt`, undefined, { multipart: file });
}

async function addRequisitions(api, people) {
  const asked = [];
  for (const [place, member] of people.entries()) {
    const body = { member: { id: member.id }, amount: 120 + place, description: 'A better chair', note: 'My back hurts' };
    asked.push(await api.post('/v1/requisitions', body));
  }
  await api.put(`/v1/requisitions/${asked[1].id}`, { status: 'denied' });
  return asked;
}

async function addLinks(api, { lunch, travel }) {
  const passphrase_fields = [{ name: 'Name of the dog', value: 'Rex' }, { name: 'Birthday', value: '1990-02-28', type: 'date' }];
  const open = await api.post('/v1/shared-links', { card: { id: lunch.id }, recipient: { name: 'Ann', email: 'ann@example.com', notify: false } });
  const asking = await api.post('/v1/shared-links', { card: { id: travel.id }, passphrase_fields });
  return { open, asking };
}
