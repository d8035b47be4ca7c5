// Requisitions: asked for, decided about, changed by two at once.

import assert from 'node:assert/strict';

import { tabTo } from './harness/keyboard.js';
import { signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

const CHAIRS = { description: 'Chairs for the meeting room', amount: '1250.5' };

async function people(installation) {
  return {
    member: await installation.addUser({ email: 'mary@example.com', role: 'member' }),
    reviewer: await installation.addUser({ email: 'grace@example.com', role: 'reviewer' }),
    accountant: await installation.addUser({ email: 'luca@example.com', role: 'accountant' }),
  };
}

/** Asks for something and returns the path of its page. */
async function askFor(page, { description, amount, day, note }) {
  await page.goto('/requisitions/new');
  await page.getByLabel('What do you want to buy?').fill(description);
  await page.getByLabel('Maximum amount').fill(amount);
  if (day) await page.getByLabel('Buy by').fill(day);
  if (note) await page.getByLabel('Note').fill(note);
  await page.getByRole('button', { name: 'Submit request' }).click();
  await page.getByText('Request submitted.').waitFor();
  return new URL(page.url()).pathname;
}

async function as(stage, person, options) {
  const page = await stage.newPage(options);
  await signIn(page, person);
  return page;
}

siteTest('what a member asks for is approved, and they have a card for it', async (stage) => {
  const mary = await as(stage, stage.prepared.member);
  await mary.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Requisitions' }).click();
  await mary.getByRole('heading', { name: 'No requests yet' }).waitFor();
  await stage.shot(mary, 'requisitions-none');
  await mary.getByRole('link', { name: 'Request a purchase' }).click();
  await stage.shot(mary, 'requisition-new');
  const path = await askFor(mary, { ...CHAIRS, day: '2090-03-31', note: 'Eight of them.\nThe old ones creak.' });
  await stage.shot(mary, 'requisition-waiting');

  const grace = await as(stage, stage.prepared.reviewer);
  await grace.goto('/requisitions?status=pending');
  await stage.shot(grace, 'requisitions');
  await grace.getByRole('link', { name: CHAIRS.description }).click();
  assert.equal(new URL(grace.url()).pathname, path);
  await stage.shot(grace, 'requisition-review');
  await grace.locator('#review-note').fill('Fine, but not the blue ones.');
  await grace.getByRole('button', { name: 'Approve' }).click();
  await grace.getByText('Requisition approved.').waitFor();
  await stage.shot(grace, 'requisition-approved-by-reviewer');

  await mary.goto(path);
  await mary.getByText('Fine, but not the blue ones.').waitFor();
  await stage.shot(mary, 'requisition-approved');
  await mary.getByRole('link', { name: /^Chairs for the meeting room ••••/ }).waitFor();
}, people);

siteTest('what is denied and what is taken back says so', async (stage) => {
  const mary = await as(stage, stage.prepared.member);
  const denied = await askFor(mary, { description: 'A yacht', amount: '900000' });
  const canceled = await askFor(mary, CHAIRS);
  await mary.getByRole('checkbox', { name: 'Yes, withdraw it' }).check();
  await mary.getByRole('button', { name: 'Withdraw request' }).click();
  await mary.getByText('Request withdrawn.').waitFor();
  await stage.shot(mary, 'requisition-canceled');
  assert.equal(new URL(mary.url()).pathname, canceled);

  const grace = await as(stage, stage.prepared.reviewer, { colorScheme: 'dark' });
  await grace.goto(denied);
  await stage.shot(grace, 'requisition-review-dark');
  await grace.getByRole('button', { name: 'Deny' }).click();
  await grace.getByText('Requisition denied.').waitFor();
  await grace.goto('/requisitions');
  await stage.shot(grace, 'requisitions-dark');
  const rows = await grace.getByRole('row').allTextContents();
  assert.ok(rows.some((row) => row.includes('A yacht') && row.includes('Denied')), rows.join('\n'));
}, people);

siteTest('what is wrong with a request is told beside the field, and nothing typed is lost', async (stage) => {
  const mary = await as(stage, stage.prepared.member);
  await mary.goto('/requisitions/new');
  const evil = '"><script>alert(1)</script>\u200f🦊';
  await mary.getByLabel('What do you want to buy?').fill(evil);
  await mary.getByLabel('Maximum amount').fill('about ten');
  await mary.getByLabel('Note').fill(evil);
  await mary.getByRole('button', { name: 'Submit request' }).click();
  await mary.locator('#amount-error').waitFor();
  await stage.shot(mary, 'requisition-refused');
  assert.equal(await mary.getByLabel('What do you want to buy?').inputValue(), evil);
  assert.equal(await mary.getByLabel('Note').inputValue(), evil);
  await mary.getByLabel('Maximum amount').fill('10');
  await mary.getByRole('button', { name: 'Submit request' }).click();
  await mary.getByRole('heading', { name: '<script>alert(1)</script>' }).waitFor();
  await mary.goto('/requisitions');
  assert.equal(await mary.locator('main script').count(), 0);
  await stage.shot(mary, 'requisitions-hostile');
}, people);

siteTest('nobody approves what was changed under their eyes', async (stage) => {
  const mary = await as(stage, stage.prepared.member);
  const path = await askFor(mary, CHAIRS);
  const grace = await as(stage, stage.prepared.reviewer);
  await grace.goto(path);
  await mary.getByLabel('Maximum amount').fill('9999');
  await mary.getByRole('button', { name: 'Save' }).click();
  await mary.getByText('Requisition saved.').waitFor();
  await grace.locator('#review-note').fill('The blue ones.');
  await grace.getByRole('button', { name: 'Approve' }).click();
  await grace.getByText('Not saved: someone else changed this while you had it open: amount').waitFor();
  await stage.shot(grace, 'requisition-changed');
  assert.match(await grace.locator('dl').first().textContent(), /\$9,999\.00 changed/, 'what is new is marked');
  assert.equal(await grace.locator('#review-note').inputValue(), 'The blue ones.', 'what was typed stays');
  assert.match(await grace.locator('main').textContent(), /\$9,999\.00/);
  await grace.getByRole('button', { name: 'Approve' }).click();
  await grace.getByText('Requisition approved.').waitFor();
}, people);

siteTest('accountants look on, and nobody sees what another member asks for', async (stage) => {
  const grace = await as(stage, stage.prepared.reviewer);
  const path = await askFor(grace, CHAIRS);
  assert.equal(await grace.getByRole('button', { name: 'Approve' }).count(), 0, 'of their own they do not decide');
  const luca = await as(stage, stage.prepared.accountant);
  await luca.goto(path);
  assert.equal(await luca.getByRole('button', { name: 'Approve' }).count(), 0);
  await stage.shot(luca, 'requisition-for-accountant');
  const mary = await as(stage, stage.prepared.member);
  assert.equal((await mary.goto(path)).status(), 404);
  await stage.shot(mary, 'requisition-of-another');
}, people);

siteTest('a purchase is asked for and approved by keyboard alone, without JavaScript', async (stage) => {
  const mary = await as(stage, stage.prepared.member);
  await mary.goto('/requisitions');
  await tabTo(mary, 'Request a purchase');
  await mary.keyboard.press('Enter');
  await mary.getByRole('heading', { name: 'Request a purchase' }).waitFor();
  await tabTo(mary, 'What do you want to buy?');
  await mary.keyboard.type('Chairs');
  await mary.keyboard.press('Tab');
  await mary.keyboard.type('20');
  await tabTo(mary, 'Submit request');
  await mary.keyboard.press('Enter');
  await mary.getByText('Request submitted.').waitFor();
  const grace = await stage.newPage({ javaScriptEnabled: false });
  await signIn(grace, stage.prepared.reviewer);
  await grace.goto('/requisitions');
  await grace.getByRole('link', { name: 'Chairs' }).click();
  await grace.getByRole('button', { name: 'Approve' }).click();
  await grace.getByText('Requisition approved.').waitFor();
}, people);

siteTest('a page left open across a logout does nothing', async (stage) => {
  const mary = await as(stage, stage.prepared.member);
  const path = await askFor(mary, CHAIRS);
  const other = await mary.context().newPage();
  await other.goto('/account');
  await other.locator('details.menu summary').click();
  await other.getByRole('button', { name: 'Sign out' }).click();
  await other.waitForURL('**/login');
  await mary.getByRole('checkbox', { name: 'Yes, withdraw it' }).check();
  await mary.getByRole('button', { name: 'Withdraw request' }).click();
  await mary.waitForURL('**/login**');
  await signIn(mary, stage.prepared.member);
  await mary.goto(path);
  await mary.getByText('Awaiting review').waitFor();
}, people);
