// A shared card as its guests see it: with and without a passphrase, by keyboard, without JavaScript,
// and when it is gone.

import assert from 'node:assert/strict';

import { Api, buy, makeCard } from './harness/api.js';
import { siteTest } from './harness/stage.js';

const PASSPHRASE = [
  { name: 'Name of the dog', value: 'Rex' },
  { name: 'Date of the offsite', value: '2026-05-04', type: 'date' },
];

async function share(api, given = {}, card = {}) {
  const allowance = { amount: 500, interval: 'monthly', daily_limit: 100, transaction_limit: 80 };
  const made = await makeCard(api, { ...card, allowance: { ...allowance, ...card.allowance } });
  const link = await api.post('/v1/shared-links', { card: { id: made.id }, ...given });
  return { card: made, link };
}

siteTest('a guest sees a card, and its number when asking for it', async (stage) => {
  const api = new Api(stage);
  const { card, link } = await share(api);
  await buy(api, card, 12.5);
  const { number, cvv } = await api.get(`/v1/cards/${card.id}/number`);
  const page = await stage.newPage();
  const answer = await page.goto(link.link);
  assert.equal(answer.headers()['referrer-policy'], 'no-referrer');
  assert.match(answer.headers()['x-robots-tag'], /noindex/);
  await page.getByRole('heading', { name: 'Team lunch' }).waitFor();
  await page.getByText('$487.50').waitFor();
  assert.ok(!(await page.content()).includes(number));
  await stage.shot(page, 'shared-card');

  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: /Show number/ }).click();
  await page.locator('.to-pay').getByText(number.match(/.{4}/g).join(' ')).waitFor();
  await page.locator('.to-pay').getByText(cvv, { exact: true }).waitFor();
  await stage.shot(page, 'shared-card-number');
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole('button', { name: 'Copy card number' }).click();
  await page.getByText('Copied card number.').waitFor({ state: 'attached' });
  assert.equal(await copied(), number);
  await page.getByRole('button', { name: 'Copy CVV' }).click();
  await page.getByText('Copied CVV.').waitFor({ state: 'attached' });
  assert.equal(await copied(), cvv);
  await page.getByRole('link', { name: 'Hide the number' }).click();
  await page.getByRole('button', { name: /Show number/ }).waitFor();
  assert.ok(!(await page.content()).includes(number));
});

siteTest('a guest is asked for the passphrase, once', async (stage) => {
  const api = new Api(stage);
  const { link } = await share(api, { passphrase_fields: PASSPHRASE, hide_balance: true });
  const page = await stage.newPage();
  await page.goto(link.link);
  await page.getByRole('heading', { name: 'A card is shared with you' }).waitFor();
  assert.ok(!(await page.content()).includes('Team lunch'));
  await stage.shot(page, 'shared-card-passphrase');
  const answer = async (dog, date) => {
    await page.getByLabel('Name of the dog').fill(dog);
    await page.getByLabel('Date of the offsite').fill(date);
    await page.getByRole('button', { name: 'See the card' }).click();
  };
  await answer('Max', '2026-05-04');
  await page.getByRole('alert').waitFor();
  await stage.shot(page, 'shared-card-passphrase-wrong');
  await answer(' rex', '2026-05-04');
  await page.getByRole('heading', { name: 'Team lunch' }).waitFor();
  assert.equal(await page.getByText('Remaining').count(), 0);
  await stage.shot(page, 'shared-card-balance-hidden');
  await page.reload();
  await page.getByRole('button', { name: /Show number/ }).click();
  await page.getByRole('heading', { name: 'Payment details' }).waitFor();
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name === 'shared-card');
  assert.equal(cookie.path, new URL(link.link).pathname);
  assert.ok(cookie.httpOnly && cookie.expires - Date.now() / 1000 < 15 * 60 + 5);

  const stranger = await stage.newPage();
  await stranger.goto(link.link);
  await stranger.getByRole('heading', { name: 'A card is shared with you' }).waitFor();
});

siteTest('a shared card works by keyboard, without JavaScript and in the dark', async (stage) => {
  const api = new Api(stage);
  const { link } = await share(api, { passphrase_fields: PASSPHRASE.slice(0, 1) });
  const page = await stage.newPage({ javaScriptEnabled: false, colorScheme: 'dark' });
  await page.goto(link.link);
  // The first answer has the focus, from the first frame on.
  await page.locator('input:focus').waitFor();
  await page.keyboard.type('REX');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Team lunch' }).waitFor();
  await page.getByRole('button', { name: /Show number/ }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Payment details' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /Copy/ }).count(), 0);
  await stage.shot(page, 'shared-card-dark');
});

siteTest('what is gone looks like what never was', async (stage) => {
  const api = new Api(stage);
  const shared = await share(api);
  const closed = await share(api, { passphrase_fields: PASSPHRASE });
  const page = await stage.newPage();
  for (const { link } of [shared, closed]) assert.equal((await page.goto(link.link)).status(), 200);
  await api.delete(`/v1/shared-links/${shared.link.id}`);
  await api.delete(`/v1/cards/${closed.card.id}`);
  const texts = new Set();
  for (const path of [shared.link.link, closed.link.link, `/s/${'0'.repeat(64)}`, '/s/x']) {
    assert.equal((await page.goto(path)).status(), 404);
    texts.add(await page.locator('body').innerHTML());
  }
  assert.equal(texts.size, 1);
  await stage.shot(page, 'shared-card-gone');
});

siteTest('cards that cannot pay say so', async (stage) => {
  const api = new Api(stage);
  const page = await stage.newPage();
  const suspended = await share(api, {}, { description: 'A card with a rather long description that goes on and on, as people write them' });
  await api.put(`/v1/cards/${suspended.card.id}`, { state: 'suspended' });
  await page.goto(suspended.link.link);
  await page.getByText('New purchases are declined for now.').waitFor();
  await stage.shot(page, 'shared-card-suspended');
  const used = await share(api, {}, { allowance: { single_use: true, end_time: '2036-01-01T00:00:00Z', scope: [5812, 5411] } });
  await buy(api, used.card, 20);
  await page.goto(used.link.link);
  await page.getByText('It was for one purchase and has been used.').waitFor();
  await stage.shot(page, 'shared-card-used');
  const address_1 = { address_1: '1 Main St', city: 'Austin', state: 'TX', zip_code: '78701' };
  const physical = await share(api, {}, { is_virtual: false, shipping_address: address_1 });
  await page.goto(physical.link.link);
  await page.getByText('See the physical card.').waitFor();
  await stage.shot(page, 'shared-card-physical');
});
