// The programs with access to a company, and the end of their access; the audit log that says so.

import assert from 'node:assert/strict';

import { Api, makeCard } from './harness/api.js';
import { getApi, registerApp, signIn, signOut } from './harness/people.js';
import { siteTest } from './harness/stage.js';

async function ownToken(page, name) {
  const { clientId } = await registerApp(page, { name, redirectUrls: [] });
  await page.goto(`/apps/${clientId}`);
  await page.getByRole('button', { name: 'Create token' }).click();
  return page.locator('code.secret').textContent();
}

siteTest('an administrator revokes a token', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const token = await ownToken(page, 'Books');
  await page.goto('/tokens');
  await stage.shot(page, 'tokens');
  await page.getByRole('button', { name: 'Revoke the token of Books' }).click();
  await page.getByText('Token revoked.').waitFor();
  assert.equal(await page.getByRole('row', { name: /Books/ }).count(), 0);
  await stage.shot(page, 'token-revoked');
  assert.equal((await getApi(stage.url, '/v1/company', token)).status, 401);
  const { access_token: own } = stage.installation.credentials;
  assert.equal((await getApi(stage.url, '/v1/company', own)).status, 200, 'only that one');

  await page.goto('/audit');
  await stage.shot(page, 'audit');
  const events = page.locator('tbody tr');
  const count = await events.count();
  await page.getByLabel('Type').selectOption('Apps');
  await page.getByRole('button', { name: 'Filter' }).click();
  assert.ok((await events.count()) >= 1 && (await events.count()) < count);
  await page.getByText('created the app Books').waitFor();
  await page.getByLabel('Last four or email').fill('nonsense');
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.getByRole('alert').waitFor();
  await stage.shot(page, 'audit-refused');
});

siteTest('the log says who did what to which, with values before and after', async (stage) => {
  const api = new Api(stage);
  const card = await makeCard(api, { description: 'Flights' });
  await api.put(`/v1/allowances/${card.allowance.id}`, { amount: 750, daily_limit: 100 });
  await api.put(`/v1/cards/${card.id}`, { description: 'Trains', state: 'suspended' });
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await signOut(page);
  await signIn(page, stage.installation.administrator);
  await page.goto('/audit');
  const rows = page.locator('tbody tr');
  await page.getByText(/\d sign-ins and sign-outs/).waitFor();
  await rows.filter({ hasText: 'changed the limits of the card Trains' }).filter({ hasText: 'budget: $500.00 → $750.00; daily limit: none → $100.00' }).waitFor();
  await rows.filter({ hasText: 'changed the card Trains' }).filter({ hasText: 'status: Active → Suspended; description' }).waitFor();
  assert.equal(await page.getByText(/[0-9a-f]{8}-[0-9a-f]{4}-7/).count(), 0, 'no ids are shown');
  await stage.shot(page, 'audit-sentences');
  await page.getByLabel('Last four or email').fill(card.last_four);
  await page.getByRole('button', { name: 'Filter' }).click();
  assert.equal(await rows.count(), 3, 'the card and its limits');
  await page.getByLabel('Made by').selectOption('Ada Lovelace');
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.getByText('No matching events').waitFor();
}, (installation) => installation.addUser({ email: 'ada@example.com', role: 'member' }));

siteTest('accountants see tokens and revoke none; others see nothing', async (stage) => {
  const rows = [
    ['accountant', 200],
    ['reviewer', 403],
    ['member', 403],
    ['developer', 403],
  ];
  const { access_token: token } = stage.installation.credentials;
  for (const [name, status] of rows) {
    const page = await stage.newPage();
    await signIn(page, stage.prepared[name]);
    const csrf = await page.locator('input[name=csrf]').first().getAttribute('value');
    const tokens = await page.goto('/tokens');
    assert.equal(tokens.status(), status, name);
    if (status === 200) {
      await stage.shot(page, 'tokens-for-accountant');
      assert.equal(await page.getByRole('button', { name: /Revoke/ }).count(), 0);
      const id = await page.locator('tbody code').first().textContent();
      const refused = await page.request.post(`/tokens/${id}/revoke`, { form: { csrf } });
      assert.equal(refused.status(), 403);
    }
    assert.equal((await page.goto('/audit')).status(), 403, name);
    assert.equal((await getApi(stage.url, '/v1/company', token)).status, 200);
    await page.context().close();
  }
}, async (installation) => ({
  accountant: await installation.addUser({ email: 'acc@example.com', role: 'accountant' }),
  reviewer: await installation.addUser({ email: 'rev@example.com', role: 'reviewer' }),
  member: await installation.addUser({ email: 'mem@example.com', role: 'member' }),
  developer: await installation.addUser({ email: 'dev@example.com', role: 'member', isDeveloper: true }),
}));

siteTest('a long log has pages', async (stage) => {
  const { access_token: token } = stage.installation.credentials;
  const headers = { authorization: `Token ${token}`, 'content-type': 'application/json' };
  for (let count = 0; count < 51; count += 1) {
    const body = JSON.stringify({ name: `Category ${count}` });
    const made = await fetch(`${stage.url}/v1/categories`, { method: 'POST', headers, body });
    assert.equal(made.status, 201);
  }
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/audit?action=category.created');
  const rows = page.locator('tbody tr');
  assert.equal(await rows.count(), 50);
  await page.getByText('1–50 of 51').waitFor();
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByText('51–51 of 51').waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByText('Operator token').waitFor();
  await stage.shot(page, 'audit-last-page');
  await page.getByRole('link', { name: 'Newer' }).click();
  await page.getByText('1–50 of 51').waitFor();
});
