// Apps: registered, changed, deleted; who may.

import assert from 'node:assert/strict';

import { getApi, registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

const REDIRECT = 'https://books.example/callback';

siteTest('an app is registered, and its secret shown once', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/apps');
  await stage.shot(page, 'apps-none');
  await page.getByRole('link', { name: 'Register an app' }).click();
  await stage.shot(page, 'app-new');
  const { clientId, clientSecret } = await registerApp(page, { redirectUrls: [REDIRECT], scopes: ['admin'] });
  await stage.shot(page, 'app-registered');
  await page.getByRole('link', { name: 'Done' }).click();
  assert.equal(new URL(page.url()).pathname, `/apps/${clientId}`);
  await stage.shot(page, 'app');
  assert.ok(!(await page.content()).includes(clientSecret));
  assert.equal(await page.getByLabel('Redirect URLs').inputValue(), REDIRECT);
  await page.goto('/apps');
  await page.getByText('admin: waiting').waitFor();
  await stage.shot(page, 'apps');
});

siteTest('what is wrong with an app is told beside the field', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/apps/new');
  await page.getByLabel('Name').fill('<script>alert(1)</script>');
  await page.getByLabel('Website').fill('https://books.example');
  await page.getByLabel('Redirect URLs').fill(`${REDIRECT}\nhttp://books.example/\n"><img src=x>`);
  await page.getByRole('button', { name: 'Register' }).click();
  await page.locator('.field-error').waitFor();
  assert.equal(await page.getByLabel('Name').inputValue(), '<script>alert(1)</script>');
  await stage.shot(page, 'app-refused');
  await page.getByLabel('Redirect URLs').fill(REDIRECT);
  await page.getByRole('button', { name: 'Register' }).click();
  await page.getByRole('heading', { name: '<script>alert(1)</script> is registered' }).waitFor();
  for (const path of ['/apps', '/audit']) {
    await page.goto(path);
    assert.equal(await page.locator('main script').count(), 0);
  }
});

siteTest('an app gets a new secret, other settings and a token, and is deleted', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const { clientId, clientSecret } = await registerApp(page, { redirectUrls: [REDIRECT] });
  await page.goto(`/apps/${clientId}`);
  await page.getByRole('button', { name: 'Rotate secret' }).click();
  const [, replaced] = await page.locator('code.secret').allTextContents();
  assert.notEqual(replaced, clientSecret);
  await stage.shot(page, 'app-secret');

  await page.getByRole('link', { name: 'Done' }).click();
  await page.getByLabel('Name').fill('Ledgers');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'Ledgers', exact: true }).waitFor();
  await stage.shot(page, 'app-saved');

  await page.getByRole('button', { name: 'Create token' }).click();
  const token = await page.locator('code.secret').textContent();
  await stage.shot(page, 'app-token');
  assert.equal((await getApi(stage.url, '/v1/cards', token)).status, 200);

  await page.getByRole('link', { name: 'Done' }).click();
  await page.getByRole('checkbox', { name: 'Yes, delete Ledgers' }).check();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.waitForURL('**/apps');
  await stage.shot(page, 'app-deleted');
  assert.equal((await getApi(stage.url, '/v1/cards', token)).status, 401);
  const gone = await page.goto(`/apps/${clientId}`);
  assert.equal(gone.status(), 404);
});

siteTest('two who change one app see each other', async (stage) => {
  const [one, other] = [await stage.newPage(), await stage.newPage({ colorScheme: 'dark' })];
  await signIn(one, stage.installation.administrator);
  await signIn(other, stage.installation.administrator);
  const { clientId } = await registerApp(one, { redirectUrls: [REDIRECT] });
  for (const page of [one, other]) await page.goto(`/apps/${clientId}`);
  await one.getByLabel('Name').fill('Ledgers');
  await one.getByLabel('Redirect URLs').fill(`${REDIRECT}\nhttps://ledgers.example/callback`);
  await one.getByRole('button', { name: 'Save' }).click();
  await one.getByText('App saved.').waitFor();
  await other.getByLabel('Website').fill('https://elsewhere.example');
  await other.getByRole('button', { name: 'Save' }).click();
  await other.getByText('someone else changed this while you had it open: name and redirect URLs').waitFor();
  await stage.shot(other, 'app-changed-dark');
  assert.equal(await other.getByLabel('Name').inputValue(), 'Ledgers');
  assert.equal(await other.getByLabel('Website').inputValue(), 'https://books.example');
  await other.getByLabel('Website').fill('https://elsewhere.example');
  await other.getByRole('button', { name: 'Save' }).click();
  await other.getByText('App saved.').waitFor();
});

siteTest('developers and administrators manage apps, nobody else', async (stage) => {
  const rows = [
    ['developer', 200],
    ['accountant', 403],
    ['reviewer', 403],
    ['member', 403],
  ];
  for (const [name, status] of rows) {
    const page = await stage.newPage();
    await signIn(page, stage.prepared[name]);
    for (const path of ['/apps', '/apps/new']) {
      const answer = await page.goto(path);
      assert.equal(answer.status(), status, `${name} ${path}`);
    }
    await stage.shot(page, `apps-for-${name}`);
    await page.context().close();
  }
}, async (installation) => ({
  developer: await installation.addUser({ email: 'dev@example.com', role: 'member', isDeveloper: true }),
  accountant: await installation.addUser({ email: 'acc@example.com', role: 'accountant' }),
  reviewer: await installation.addUser({ email: 'rev@example.com', role: 'reviewer' }),
  member: await installation.addUser({ email: 'mem@example.com', role: 'member' }),
}));

siteTest('a developer who may not authorize gets no token of the company', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.prepared);
  const { clientId } = await registerApp(page, { redirectUrls: [] });
  await page.goto(`/apps/${clientId}`);
  await page.getByText('Only administrators and accountants').waitFor();
  const csrf = await page.locator('main input[name=csrf]').first().getAttribute('value');
  const answer = await page.request.post(`/apps/${clientId}/token`, { form: { csrf } });
  assert.equal(answer.status(), 403);
}, (installation) => installation.addUser({ email: 'dev@example.com', role: 'member', isDeveloper: true }));

siteTest('a scope that was not approved is not given', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const { clientId } = await registerApp(page, { redirectUrls: [], scopes: ['admin'] });
  await page.goto(`/apps/${clientId}`);
  const csrf = await page.locator('main input[name=csrf]').first().getAttribute('value');
  const answer = await page.request.post(`/apps/${clientId}/token`, { form: { csrf, scope: 'admin' } });
  assert.equal(answer.status(), 403);
});

siteTest('a wish that is given up takes its approval along', async (stage) => {
  const { clientId } = stage.prepared;
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const offered = page.locator(`form[action="/apps/${clientId}/token"] input[value=admin]`);
  const wish = page.locator(`form[action="/apps/${clientId}"]`).getByRole('checkbox', { name: 'admin' });
  await page.goto(`/apps/${clientId}`);
  await stage.shot(page, 'app-approved');
  assert.equal(await offered.count(), 1);
  for (const isWished of [false, true]) {
    await page.getByLabel('Website').fill('https://books.example');
    await wish.setChecked(isWished);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('App saved.').waitFor();
    assert.equal(await offered.count(), 0, 'what was given up has to be approved again');
  }
}, (installation) => installation.addApp({ name: 'Books', redirectUrl: REDIRECT, scopes: ['admin'] }));

siteTest('apps of another company do not exist', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const { clientId } = await registerApp(page, { redirectUrls: [REDIRECT] });
  const other = await stage.newPage();
  await signIn(other, stage.prepared);
  const answer = await other.goto(`/apps/${clientId}`);
  assert.equal(answer.status(), 404);
  await other.goto('/apps');
  const own = await other.locator('input[name=csrf]').first().getAttribute('value');
  for (const act of ['', '/secret', '/token', '/delete']) {
    const form = { csrf: own, is_confirmed: 'true', name: 'x', website: 'https://x.example', redirect_urls: '' };
    const refused = await other.request.post(`/apps/${clientId}${act}`, { form });
    assert.equal(refused.status(), 404, act);
  }
}, async (installation) => {
  const company = await installation.addCompany('Other Company');
  return installation.addUser({ email: 'other@example.com', role: 'administrator', company });
});
