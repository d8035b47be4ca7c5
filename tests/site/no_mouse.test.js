// The whole way of an app's request by keyboard alone, and once more without JavaScript.

import assert from 'node:assert/strict';

import { tabTo } from './harness/keyboard.js';
import { PASSWORD } from './harness/installation.js';
import { linkSent } from './harness/outbox.js';
import { START, authorizeUrl, enterPassword, getApi, postToken, registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

async function registeredApp(stage) {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const app = await registerApp(page, { redirectUrls: [stage.receiver.url] });
  await page.context().close();
  return app;
}

async function exchange(stage, app, query) {
  const client = { client_id: app.clientId, client_secret: app.clientSecret };
  const given = await postToken(stage.url, { grant_type: 'authorization_code', code: query.code, ...client });
  assert.equal(given.status, 201, JSON.stringify(given.body));
  return given.body.access_token;
}

siteTest('signing in, allowing, revoking and signing out by keyboard alone', async (stage) => {
  const app = await registeredApp(stage);
  const { email, password } = stage.installation.administrator;
  const page = await stage.newPage();
  await page.goto(authorizeUrl(stage.url, { client_id: app.clientId }));
  await tabTo(page, 'Email');
  await page.keyboard.type(email);
  await tabTo(page, 'Password');
  await page.keyboard.type(password);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Allow Books to access your account?' }).waitFor();
  await tabTo(page, 'Allow');
  await page.keyboard.press('Enter');
  const token = await exchange(stage, app, (await stage.receiver.nextAt(page)).query);

  await page.goto('/tokens');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  await page.keyboard.press('Enter');
  await tabTo(page, 'Revoke the token of Books');
  await page.keyboard.press('Space');
  await page.getByText('Token revoked.').waitFor();
  assert.equal(await page.getByRole('row', { name: /Books/ }).count(), 0);
  assert.equal((await getApi(stage.url, '/v1/company', token)).status, 401);

  await page.goto('/account');
  const menu = await page.locator('details.menu summary').textContent();
  await tabTo(page, menu.trim());
  await page.keyboard.press('Enter');
  await tabTo(page, 'Sign out');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/login');
});

/** Goes on by a link or a button of this name. */
async function press(page, name) {
  await tabTo(page, name);
  await page.keyboard.press('Enter');
}

async function type(page, label, text) {
  await tabTo(page, label);
  await page.keyboard.type(text);
}

async function signInByKeyboard(page, { email, password }) {
  await page.goto('/login');
  await type(page, 'Email', email);
  await type(page, 'Password', password);
  await page.keyboard.press('Enter');
  await page.waitForURL(START);
}

siteTest('inviting somebody, asking for a purchase and approving it by keyboard alone', async (stage) => {
  const page = await stage.newPage();
  await signInByKeyboard(page, stage.installation.administrator);
  await press(page, 'Members');
  await page.getByRole('heading', { name: 'Members', level: 1 }).waitFor();
  await press(page, 'Invite a member');
  await page.getByRole('heading', { name: 'Invite a member' }).waitFor();
  await type(page, 'First name', 'Jean');
  await type(page, 'Last name', 'Bartik');
  await type(page, 'Email', 'jean@example.com');
  await press(page, 'Invite');
  await page.getByText('Member invited.').waitFor();

  const jean = await stage.newPage();
  await jean.goto(new URL(await linkSent(stage, 'jean@example.com')).pathname);
  await type(jean, 'New password', PASSWORD);
  await type(jean, 'New password again', PASSWORD);
  await jean.keyboard.press('Enter');
  await jean.waitForURL('**/login');
  await signInByKeyboard(jean, { email: 'jean@example.com', password: PASSWORD });
  await press(jean, 'Request a purchase');
  await jean.getByRole('heading', { name: 'Request a purchase' }).waitFor();
  await type(jean, 'What do you want to buy?', 'A keyboard');
  await jean.keyboard.press('Tab');
  await jean.keyboard.type('120');
  await press(jean, 'Submit request');
  await jean.getByText('Request submitted.').waitFor();

  await press(page, 'Overview');
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  await press(page, '1 request');
  await page.getByRole('heading', { name: 'Requisitions' }).waitFor();
  await press(page, 'A keyboard');
  await page.getByRole('heading', { name: 'A keyboard', level: 1 }).waitFor();
  await press(page, 'Approve');
  await page.getByText('Requisition approved.').waitFor();
  await jean.reload();
  await jean.getByRole('link', { name: /^A keyboard ••••/ }).waitFor();
});

siteTest('everything works without JavaScript', async (stage) => {
  const page = await stage.newPage({ javaScriptEnabled: false });
  await signIn(page, stage.installation.administrator);
  const app = await registerApp(page, { redirectUrls: [stage.receiver.url] });
  await page.goto(authorizeUrl(stage.url, { client_id: app.clientId }));
  await page.getByRole('button', { name: 'Allow' }).click();
  const token = await exchange(stage, app, (await stage.receiver.nextAt(page)).query);
  assert.equal((await getApi(stage.url, '/v1/company', token)).status, 200);
  await page.goto('/tokens');
  await page.getByRole('button', { name: 'Revoke the token of Books' }).click();
  await page.getByText('Token revoked.').waitFor();
  assert.equal(await page.getByRole('row', { name: /Books/ }).count(), 0);
  await page.locator('details.menu summary').click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/login');
});

siteTest('a page begins at its top, and on a phone the way on that it is at is in sight', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  for (const viewport of [{ width: 1280, height: 400 }, { width: 390, height: 400 }]) {
    await page.setViewportSize(viewport);
    for (const path of ['/overview', '/cards/new', '/requisitions?status=canceled', '/account']) {
      await page.goto(path);
      assert.equal(await page.evaluate(() => globalThis.scrollY), 0, `${path} at ${viewport.width}`);
      const here = await page.locator('.ways [aria-current]').boundingBox();
      assert.ok(here.x > -1 && here.x + here.width <= viewport.width, `${path} at ${viewport.width}: ${JSON.stringify(here)}`);
    }
  }
});

siteTest('pages work in the dark and for those who want no motion', async (stage) => {
  const page = await stage.newPage({ colorScheme: 'dark', reducedMotion: 'reduce' });
  await page.goto('/login');
  await stage.shot(page, 'sign-in-dark');
  await enterPassword(page, stage.installation.administrator);
  await page.waitForURL(START);
  await stage.shot(page, 'overview-dark');
  await page.goto('/account');
  await stage.shot(page, 'account-dark');
});
