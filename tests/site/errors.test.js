// The pages of what went wrong: each says so with its status, in words, with a way on.

import assert from 'node:assert/strict';

import { registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

siteTest('what is not there, not allowed or out of date has a page', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const nobody = '01890000-0000-7000-8000-000000000000';
  const rows = [
    ['/nothing', 404],
    ['/<script>alert(1)</script>', 404],
    ['/apps/not-an-id', 404],
    [`/apps/${nobody}`, 404],
    ['/password/set/nothing', 404],
    ['/tokens?offset=-1', 400],
    ['/audit?offset=x', 400],
    [`/tokens/${nobody}/revoke`, 405],
  ];
  for (const [path, status] of rows) {
    const answer = await page.goto(path);
    assert.equal(answer.status(), status, path);
    assert.match(answer.headers()['content-type'], /^text\/html/, path);
    await page.getByRole('heading', { level: 1 }).waitFor();
    const text = await page.locator('main').textContent();
    assert.ok(!/rust|panic|redb|axum|\.rs/i.test(text), text);
    if (path.startsWith('/nothing')) await stage.shot(page, 'error-404');
  }
  await page.goto('/account');
  await page.locator('input[name=csrf]').evaluateAll((fields) => {
    for (const field of fields) field.value = 'stale';
  });
  await page.locator('details.menu summary').click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'This form is out of date' }).waitFor();
  await stage.shot(page, 'error-403');
  await page.goto('/account');
  assert.equal(new URL(page.url()).pathname, '/account', 'nobody was signed out');
});

siteTest('no form is taken without the value of its page', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const { clientId } = await registerApp(page, { redirectUrls: ['https://books.example/'] });
  await page.goto('/tokens');
  const token = await page.locator('tbody code').first().textContent();
  const rows = [
    ['/apps/new', { name: 'Other', website: 'https://other.example' }],
    [`/apps/${clientId}`, { name: 'Other', website: 'https://other.example' }],
    [`/apps/${clientId}/secret`, {}],
    [`/apps/${clientId}/token`, {}],
    [`/apps/${clientId}/delete`, { is_confirmed: 'true' }],
    [`/tokens/${token}/revoke`, {}],
    [`/v1/oauth/authorize?response_type=code&client_id=${clientId}`, { decision: 'allow' }],
    ['/account', { first_name: 'Eve', last_name: '' }],
    ['/company', { company: stage.installation.credentials.company_id }],
    ['/logout', {}],
  ];
  for (const [path, form] of rows) {
    for (const csrf of [{}, { csrf: '' }, { csrf: 'a'.repeat(32) }]) {
      const answer = await page.request.post(path, { form: { ...form, ...csrf } });
      assert.equal(answer.status(), 403, path);
    }
  }
  await page.goto('/apps');
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.getByRole('link', { name: 'Books' }).waitFor();
  await page.goto('/tokens');
  assert.equal(await page.locator('tbody tr').count(), 1);
});
