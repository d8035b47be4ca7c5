// How many clicks what people do most takes, from the overview on. A click on a field or a choice counts; what
// is typed does not.

import assert from 'node:assert/strict';

import { Api, buy, makeCard } from './harness/api.js';
import { signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

/** Clicks on a page, counted. */
class Clicks {
  count = 0;

  constructor(page) {
    this.page = page;
  }

  async on(target) {
    this.count += 1;
    await target.click();
  }

  link(name) {
    return this.on(this.page.getByRole('link', { name, exact: typeof name === 'string' }));
  }

  button(name) {
    return this.on(this.page.getByRole('button', { name, exact: typeof name === 'string' }));
  }
}

async function overview(stage) {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/overview');
  return { page, clicks: new Clicks(page) };
}

siteTest('limiting a card takes three clicks', async (stage) => {
  await makeCard(new Api(stage), { description: 'Lunches' });
  const { page, clicks } = await overview(stage);
  await clicks.link('Cards');
  await clicks.link(/^Limits of Lunches/);
  await page.getByLabel('Daily limit').fill('40');
  await clicks.button('Save');
  await page.getByText('Budget and limits saved.').waitFor();
  await page.getByText('$40.00 ($40.00 left today)').waitFor();
  assert.equal(clicks.count, 3);
});

siteTest('seeing why a purchase was declined and allowing the next takes three clicks', async (stage) => {
  const api = new Api(stage);
  const card = await makeCard(api, { description: 'Lunches', allowance: { amount: 20, transaction_limit: 10, scope: [5812] } });
  assert.equal((await buy(api, card, 45.31)).approved, false);
  const { page, clicks } = await overview(stage);
  await clicks.link('Harbor Grocery');
  await page.getByText('Raise the budget by $25.31').waitFor();
  await stage.shot(page, 'declined-with-action');
  await clicks.link('Allow purchases like this');
  await page.getByText('Budget: $45.31 instead of $20.00').waitFor();
  assert.equal(await page.getByLabel('Budget').inputValue(), '45.31');
  assert.equal(await page.getByLabel('Per-transaction limit').inputValue(), '45.31');
  await stage.shot(page, 'limits-filled-in');
  await clicks.button('Save');
  await page.getByText('Budget and limits saved.').waitFor();
  assert.equal(clicks.count, 3);
  assert.equal((await buy(api, card, 45.31)).approved, true);
});

siteTest('sharing a card takes three clicks', async (stage) => {
  await makeCard(new Api(stage), { description: 'Lunches' });
  const { page, clicks } = await overview(stage);
  await clicks.link('Cards');
  await clicks.link(/^Share Lunches/);
  await clicks.button('Create link');
  await page.getByRole('heading', { name: 'Link for Anyone with the link' }).waitFor();
  assert.equal(clicks.count, 3);
});

siteTest('a statement of a month takes three clicks', async (stage) => {
  const { page, clicks } = await overview(stage);
  await clicks.link('Statements');
  const month = page.getByLabel('Month of the statement');
  clicks.count += 1;
  await month.selectOption({ index: 0 });
  const download = page.waitForEvent('download');
  await clicks.button('PDF of the month');
  assert.match((await download).suggestedFilename(), /\.pdf$/);
  assert.equal(clicks.count, 3);
});

siteTest('finding a card by its last four digits takes one click', async (stage) => {
  const api = new Api(stage);
  const card = await makeCard(api, { description: 'Lunches' });
  await makeCard(api, { description: 'Other' });
  await buy(api, card, 12.5, { name: 'Corner Bakery' });
  const { page, clicks } = await overview(stage);
  await page.keyboard.press('Tab');
  const search = page.getByLabel('Search cards, people and purchases');
  await search.fill(card.last_four);
  await search.press('Enter');
  await stage.shot(page, 'search-last-four');
  await clicks.link('Lunches');
  assert.equal(new URL(page.url()).pathname, `/cards/${card.id}`);
  assert.equal(clicks.count, 1);

  for (const [text, found] of [['corner', 'Corner Bakery'], ['$12.50', 'Corner Bakery'], ['lunch', 'Lunches'], ['lovel', 'Ada Lovelace']]) {
    await search.fill(text);
    await search.press('Enter');
    await page.getByRole('main').getByRole('link', { name: found }).first().waitFor();
  }
  await stage.shot(page, 'search-people');
  await search.fill('"><script>');
  await search.press('Enter');
  await page.getByText('Nothing found').waitFor();
  await stage.shot(page, 'search-nothing');
}, (installation) => installation.addUser({ email: 'ada@example.com', role: 'member' }));

siteTest('seeing who changed what takes one click', async (stage) => {
  const api = new Api(stage);
  const card = await makeCard(api, { description: 'Lunches' });
  await api.put(`/v1/allowances/${card.allowance.id}`, { amount: 750 });
  const { page, clicks } = await overview(stage);
  await clicks.link('Audit log');
  await page.getByText('budget: $500.00 → $750.00').waitFor();
  assert.equal(clicks.count, 1);
});

siteTest('an app and its token take five clicks', async (stage) => {
  const { page, clicks } = await overview(stage);
  await clicks.link('Apps');
  await clicks.link('Register an app');
  await page.getByLabel('Name').fill('Books');
  await page.getByLabel('Website').fill('https://books.example');
  await clicks.button('Register');
  await clicks.link('Done');
  await clicks.button('Create token');
  await page.locator('code.secret').waitFor();
  assert.equal(clicks.count, 5);
});

siteTest('sending a webhook again takes three clicks', async (stage) => {
  const endpoint = await new Api(stage).post('/v1/webhook-endpoints', { delivery_url: 'http://127.0.0.1:9/hook' });
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto(`/webhooks/${endpoint.id}`);
  await page.getByRole('button', { name: 'Send test event' }).click();
  await page.getByRole('button', { name: /^Resend the message/ }).waitFor();
  await page.goto('/overview');
  const clicks = new Clicks(page);
  await clicks.link('Webhooks');
  await clicks.link('http://127.0.0.1:9/hook');
  await clicks.button(/^Resend the message/);
  await page.locator('p.alert[role=status]').waitFor();
  assert.equal(clicks.count, 3);
});

siteTest('approving a requisition takes three clicks', async (stage) => {
  const mary = await stage.newPage();
  await signIn(mary, stage.prepared);
  await mary.goto('/requisitions/new');
  await mary.getByLabel('What do you want to buy?').fill('Chairs');
  await mary.getByLabel('Maximum amount').fill('1250.50');
  await mary.getByRole('button', { name: 'Submit request' }).click();
  await mary.getByText('Request submitted.').waitFor();
  const { page, clicks } = await overview(stage);
  await clicks.link(/^Requisitions/);
  await clicks.link('Chairs');
  await clicks.button('Approve');
  await page.getByText('Requisition approved.').waitFor();
  assert.equal(clicks.count, 3);
}, (installation) => installation.addUser({ email: 'mary@example.com', role: 'member' }));

siteTest('several cards are suspended at once', async (stage) => {
  const api = new Api(stage);
  for (const description of ['Lunches', 'Flights', 'Hotels']) await makeCard(api, { description });
  const { page, clicks } = await overview(stage);
  await clicks.link('Cards');
  await clicks.on(page.getByLabel(/^Select Lunches/));
  await clicks.on(page.getByLabel(/^Select Hotels/));
  await stage.shot(page, 'cards-selected');
  await clicks.button('Suspend selected cards');
  await page.getByText('Cards suspended.').waitFor();
  assert.equal(await page.getByRole('row').filter({ hasText: 'Suspended' }).count(), 2);
  await clicks.button('Suspend selected cards');
  await page.getByText('Select cards first.').waitFor();
});

siteTest('who sees only their own finds only that', async (stage) => {
  const api = new Api(stage);
  const holder = (await api.get('/v1/members?limit=100')).results.find(({ email }) => email === 'ada@example.com');
  const own = await makeCard(api, { description: 'Own lunches', assigned_to: { id: holder.id } });
  const other = await makeCard(api, { description: 'Other lunches' });
  await buy(api, own, 5, { name: 'Corner Bakery' });
  await buy(api, other, 6, { name: 'Corner Shop' });
  const page = await stage.newPage();
  await signIn(page, stage.prepared);
  for (const text of ['lunches', 'corner', 'ada', other.last_four]) {
    await page.goto(`/search?q=${text}`);
    for (const hidden of ['Other lunches', 'Corner Shop', 'Lovelace']) {
      assert.equal(await page.getByRole('main').getByText(hidden).count(), 0, `${text}: ${hidden}`);
    }
  }
  await page.goto('/search?q=lunches');
  await page.getByRole('main').getByRole('link', { name: 'Own lunches' }).waitFor();
}, (installation) => installation.addUser({ email: 'ada@example.com', role: 'member' }));
