// Cards and the overview, as people meet them: made, used, explained, shared, and closed.

import assert from 'node:assert/strict';

import { signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

async function post(stage, path, token, body) {
  const response = await fetch(`${stage.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Token ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  assert.ok(response.ok, `${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** Has the network ask for a purchase. */
function buy(stage, card, amount, name = 'Blue Bottle Coffee') {
  const merchant = { mid: '42', mcc: 5814, name, city: 'Oakland', state: 'CA', country: 'US' };
  const body = { card_id: card, amount, merchant };
  return post(stage, '/network/v1/authorizations', stage.installation.credentials.network_key, body);
}

/** Makes a card by the form and returns its id. */
async function makeCard(page, { description, amount, limit = '' }) {
  await page.goto('/cards/new');
  await page.getByLabel('Description').fill(description);
  await page.getByLabel('Budget').fill(amount);
  await page.getByLabel('Per-transaction limit').fill(limit);
  await page.getByRole('button', { name: 'Create card' }).click();
  await page.getByText('Card created.').waitFor();
  return new URL(page.url()).pathname.split('/').at(-1);
}

async function bodyOverflows(page) {
  return page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
}

siteTest('a card is made, used, limited, shown, shared and closed', async (stage) => {
  const page = await stage.newPage();
  const { administrator } = stage.installation;
  await signIn(page, administrator);
  await page.goto('/cards?state=suspended');
  await stage.shot(page, 'cards-none');
  await page.goto('/cards/new');
  await stage.shot(page, 'card-new');
  await page.getByLabel('Description').fill('x');
  await page.getByLabel('Budget').fill('a lot');
  await page.getByLabel('Cardholder').fill('nobody@example.com');
  await page.getByRole('button', { name: 'Create card' }).click();
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByLabel('Budget').inputValue(), 'a lot', 'what was typed stays');
  await stage.shot(page, 'card-new-refused');

  const id = await makeCard(page, { description: 'Team lunches', amount: '1,200', limit: '60' });
  await buy(stage, id, '12.75');
  await buy(stage, id, '48.20', 'Zachary’s Chicago Pizza');
  await buy(stage, id, '75.00', 'A merchant with a name that goes on');
  await page.goto(`/cards/${id}`);
  await page.locator('details.why summary').first().click();
  await page.getByText('To approve it:').waitFor();
  await stage.shot(page, 'card');

  await page.getByRole('link', { name: 'Change budget and limits' }).click();
  await page.getByLabel('Per-transaction limit').fill('100');
  await page.getByText('Restrict merchants').click();
  await stage.shot(page, 'card-allowance');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Budget and limits saved.').waitFor();

  await page.getByRole('link', { name: 'Show card details' }).click();
  await page.getByLabel('Your password').fill('wrong');
  await page.getByRole('button', { name: 'Show card details' }).click();
  await page.getByText('This is not your current password.').waitFor();
  await stage.shot(page, 'card-number-refused');
  await page.getByLabel('Your password').fill(administrator.password);
  await page.getByRole('button', { name: 'Show card details' }).click();
  await page.getByRole('heading', { name: 'Card number' }).waitFor();
  assert.match(await page.locator('.plastic-number').textContent(), /^\d{4} \d{4} \d{4} \d{4}$/);
  assert.doesNotMatch(page.url() + (await page.title()), /\d{12}/);
  await stage.shot(page, 'card-number');
  await page.getByRole('link', { name: 'Done' }).click();

  await page.getByRole('link', { name: 'Share card' }).click();
  await page.getByRole('textbox', { name: 'Name' }).first().fill('Grace Hopper');
  await page.getByRole('textbox', { name: 'Email' }).fill('grace@example.com');
  await page.getByLabel('Question').first().fill('First ship');
  await page.getByLabel('Answer').first().fill('Mark I');
  await stage.shot(page, 'card-share');
  await page.getByRole('button', { name: 'Create link' }).click();
  await page.getByText('Link created.').waitFor();
  await page.getByRole('heading', { name: 'Link for Grace Hopper' }).waitFor();
  const link = page.getByRole('region', { name: /^Link for/ }).locator('code.secret');
  assert.match(await link.textContent(), /\/s\/[0-9a-f]{64}$/);
  assert.ok((await link.boundingBox()).y < 500, 'it is seen without scrolling');
  await stage.shot(page, 'card-shared');
  await page.getByText('Show the link').click();
  assert.equal(await page.locator('#links code.secret').textContent(), await link.textContent());
  await page.getByRole('button', { name: 'Delete the link for Grace Hopper' }).click();
  await page.getByText('Link deleted.').waitFor();

  await page.getByRole('button', { name: 'Suspend' }).click();
  await page.getByText('Card suspended.').waitFor();
  assert.equal((await buy(stage, id, '1.00')).response_code, 1202);
  await page.getByRole('link', { name: 'Close card' }).click();
  await stage.shot(page, 'card-close');
  await page.getByRole('checkbox', { name: /Yes, close/ }).check();
  await page.getByRole('button', { name: 'Close card' }).click();
  await page.getByText('Card closed.').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Show card details' }).count(), 0);
  await stage.shot(page, 'card-closed');
});

siteTest('of two who edit one card the second is told', async (stage) => {
  const [one, other] = [await stage.newPage(), await stage.newPage()];
  await signIn(one, stage.installation.administrator);
  await signIn(other, stage.installation.administrator);
  const id = await makeCard(one, { description: 'Fuel', amount: '100' });
  for (const page of [one, other]) await page.goto(`/cards/${id}/edit`);
  await one.getByLabel('Description').fill('Fuel and tolls');
  await one.getByRole('button', { name: 'Save' }).click();
  await one.getByText('Card saved.').waitFor();
  await other.getByLabel('Description').fill('Petrol');
  await other.getByRole('button', { name: 'Save' }).click();
  await other.getByText('someone else changed this').waitFor();
  assert.equal(await other.getByLabel('Description').inputValue(), 'Fuel and tolls');
  await stage.shot(other, 'card-edited-by-two');
});

siteTest('the overview follows what happens', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.getByText(/^Live, as of/).waitFor();
  await page.locator('.plot canvas').first().waitFor();
  const id = await makeCard(page, { description: 'Travel', amount: '5000', limit: '400' });
  await page.goto('/overview');
  await page.getByText(/^Live, as of/).waitFor();
  await buy(stage, id, '215.40', 'Caledonian Sleeper');
  await buy(stage, id, '1200', 'Grand Hotel');
  await page.getByRole('cell', { name: 'Over the per-transaction limit' }).first().waitFor();
  await page.locator('[data-text=authorized-today]', { hasText: '$215.40' }).waitFor();
  await stage.shot(page, 'overview');
  await page.emulateMedia({ colorScheme: 'dark' });
  await stage.shot(page, 'overview-live-dark');
  const other = await page.context().newPage();
  await other.goto('/account');
  await other.locator('details.menu summary').click();
  await other.getByRole('button', { name: 'Sign out' }).click();
  await other.waitForURL('**/login');
  await page.getByText('You’ve been signed out').waitFor();
});

siteTest('members begin with what is theirs, by keyboard and without JavaScript', async (stage) => {
  const root = await stage.newPage();
  await signIn(root, stage.installation.administrator);
  await root.goto('/cards/new');
  await root.getByLabel('Description').fill('My travel');
  await root.getByLabel('Cardholder').fill('member@example.com');
  await root.getByLabel('Budget').fill('300');
  await root.getByLabel('Budget').press('Enter');
  await root.getByText('Card created.').waitFor();
  const id = new URL(root.url()).pathname.split('/').at(-1);
  await buy(stage, id, '20');
  const page = await stage.newPage({ javaScriptEnabled: false });
  await signIn(page, stage.prepared.member);
  await page.getByRole('heading', { name: 'Your cards' }).waitFor();
  await stage.shot(page, 'overview-of-member');
  for (const name of ['Members', 'Accounting', 'Statements', 'Apps']) {
    assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0, name);
  }
  await page.getByRole('link', { name: 'Cards', exact: true }).press('Enter');
  await page.getByRole('link', { name: 'My travel' }).press('Enter');
  assert.equal(await page.getByRole('link', { name: 'Edit' }).count(), 0);
  await stage.shot(page, 'card-of-member');
  await page.getByRole('link', { name: 'Show card details' }).press('Enter');
  await page.getByLabel('Your password').fill(stage.prepared.member.password);
  await page.getByLabel('Your password').press('Enter');
  assert.match(await page.locator('.plastic-number').textContent(), /^\d{4} /);
}, async (installation) => ({
  member: await installation.addUser({ email: 'member@example.com', role: 'member' }),
}));

siteTest('long and hostile texts keep their place', async (stage) => {
  const page = await stage.newPage({ colorScheme: 'dark' });
  await signIn(page, stage.installation.administrator);
  const evil = '<img src=x onerror=alert(1)>"\'\u200f\u{1F4A9}';
  for (const description of [evil, 'W'.repeat(390)]) {
    const id = await makeCard(page, { description, amount: '999999999999.99' });
    await buy(stage, id, '1', evil.slice(0, 25));
    await page.goto(`/cards/${id}`);
    assert.equal(await bodyOverflows(page), false);
  }
  await stage.shot(page, 'card-long-dark');
  await page.goto('/cards');
  await stage.shot(page, 'cards-dark');
  await page.goto('/overview');
  await page.getByText(/^Live, as of/).waitFor();
  await stage.shot(page, 'overview-hostile');
});
