// Signing in and out, the second factor, passwords.

import assert from 'node:assert/strict';

import { PASSWORD } from './harness/installation.js';
import { linkSent } from './harness/outbox.js';
import { START, enterPassword, setQuestion, setUpTotp, signIn, signOut } from './harness/people.js';
import { siteTest } from './harness/stage.js';
import { nextTotpCode, totpCode } from './harness/totp.js';

siteTest('sign-in leads to the account and sign-out ends it', async (stage) => {
  const page = await stage.newPage();
  await page.goto('/account');
  assert.equal(new URL(page.url()).pathname, '/login', 'the account needs a session');
  await stage.shot(page, 'sign-in');
  await enterPassword(page, stage.installation.administrator);
  await page.waitForURL('**/account');
  await stage.shot(page, 'account');
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name === 'session');
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Lax', JSON.stringify(cookie));
  await signOut(page);
  await stage.shot(page, 'signed-out');
  await page.context().addCookies([cookie]);
  await page.goto('/account');
  assert.equal(new URL(page.url()).pathname, '/login', 'the old cookie opens nothing');
});

siteTest('a wrong password and an unknown address look the same', async (stage) => {
  const page = await stage.newPage();
  const { email } = stage.installation.administrator;
  const told = [];
  for (const person of [{ email, password: 'wrong' }, { email: 'nobody@example.com', password: 'wrong' }]) {
    await page.goto('/login');
    await enterPassword(page, person);
    told.push(await page.getByRole('alert').textContent());
    assert.equal(await page.getByLabel('Password', { exact: true }).inputValue(), '');
  }
  assert.equal(told[0], told[1]);
  await stage.shot(page, 'sign-in-refused');
});

siteTest('a session is not the one from before sign-in', async (stage) => {
  const page = await stage.newPage();
  await page.goto('/login');
  const planted = 'a'.repeat(64);
  await page.context().addCookies([{ name: 'session', value: planted, url: stage.url }]);
  await signIn(page, stage.installation.administrator);
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name === 'session');
  assert.notEqual(cookie.value, planted);
});

siteTest('the second factor is asked for, and a code works once', async (stage) => {
  const { administrator } = stage.installation;
  const page = await stage.newPage();
  await signIn(page, administrator);
  await page.goto('/account/totp');
  await stage.shot(page, 'totp-set-up');
  const seed = await setUpTotp(page, administrator.password);
  await signOut(page);

  await page.goto('/login');
  await enterPassword(page, administrator);
  await page.waitForURL('**/login/second-factor**');
  await stage.shot(page, 'second-factor');
  const wrong = String((Number(totpCode(seed)) + 1) % 1_000_000).padStart(6, '0');
  for (const refused of [wrong, totpCode(seed, -9)]) {
    await page.getByLabel('Code').fill(refused);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('alert').waitFor();
  }
  await stage.shot(page, 'second-factor-refused');
  const code = nextTotpCode(seed);
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL(START);
  await signOut(page);

  await page.goto('/login');
  await enterPassword(page, administrator);
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('alert').waitFor();
});

siteTest('without the second factor nothing is open', async (stage) => {
  const { administrator } = stage.installation;
  const page = await stage.newPage();
  await signIn(page, administrator);
  await setUpTotp(page, administrator.password);
  await signOut(page);
  await page.goto('/login');
  await enterPassword(page, administrator);
  await page.waitForURL('**/login/second-factor**');
  for (const path of ['/account', '/apps', '/tokens', '/audit']) {
    await page.goto(path);
    assert.equal(new URL(page.url()).pathname, '/login', path);
  }
});

siteTest('a security question is asked after the code', async (stage) => {
  const { administrator } = stage.installation;
  const page = await stage.newPage();
  await signIn(page, administrator);
  const seed = await setUpTotp(page, administrator.password);
  const known = { question: 'Which tree stood there?', answer: 'A Linden' };
  await setQuestion(page, administrator.password, known);
  await stage.shot(page, 'account-secured');
  await signOut(page);
  await enterPassword(page, administrator);
  await page.getByLabel('Code').fill(nextTotpCode(seed));
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByLabel(known.question).fill('an oak');
  await stage.shot(page, 'security-question');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel(known.question).fill(' a linden ');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL(START);
});

siteTest('a changed password ends the other sessions', async (stage) => {
  const { administrator } = stage.installation;
  const [page, other] = [await stage.newPage(), await stage.newPage()];
  await signIn(page, administrator);
  await signIn(other, administrator);
  await page.goto('/account/password');
  await stage.shot(page, 'password-change');
  await page.getByLabel('Current password').fill(administrator.password);
  await page.getByLabel('New password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('New password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Change the password' }).click();
  await page.waitForURL('**/account');
  await other.goto('/account');
  assert.equal(new URL(other.url()).pathname, '/login');
});

siteTest('a session is ended from another one', async (stage) => {
  const [page, other] = [await stage.newPage(), await stage.newPage()];
  await signIn(page, stage.installation.administrator);
  await signIn(other, stage.installation.administrator);
  await page.goto('/account');
  await page.getByRole('button', { name: /^Sign out .* since/ }).click();
  await page.waitForURL('**/account');
  await other.goto('/account');
  assert.equal(new URL(other.url()).pathname, '/login');
  await page.reload();
  assert.equal(new URL(page.url()).pathname, '/account');
});

siteTest('a forgotten password is set anew by a link that works once', async (stage) => {
  const { administrator, credentials } = stage.installation;
  const page = await stage.newPage();
  await page.goto('/login');
  await page.getByRole('link', { name: 'Forgot your password?' }).click();
  await stage.shot(page, 'password-forgot');
  await page.getByLabel('Email').fill('nobody@example.com');
  await page.getByRole('button', { name: 'Send the link' }).click();
  const toNobody = await page.locator('main').textContent();
  await page.goto('/password/forgot');
  await page.getByLabel('Email').fill(administrator.email);
  await page.getByRole('button', { name: 'Send the link' }).click();
  assert.equal(await page.locator('main').textContent(), toNobody, 'nobody learns who has an account');
  await stage.shot(page, 'password-sent');

  const link = await linkSent(stage, administrator.email);
  await page.goto(link);
  await stage.shot(page, 'password-set');
  await setPassword(page, 'short', 'short');
  await page.locator('.field-error, [role=alert]').first().waitFor();
  await setPassword(page, PASSWORD, `${PASSWORD}x`);
  await page.locator('.field-error, [role=alert]').first().waitFor();
  await stage.shot(page, 'password-set-refused');
  await setPassword(page, PASSWORD, PASSWORD);
  await page.waitForURL('**/login');
  await enterPassword(page, { email: administrator.email, password: credentials.admin_password });
  await page.getByRole('alert').waitFor();
  await signIn(page, { email: administrator.email, password: PASSWORD });
  await signOut(page);

  const used = await page.goto(link);
  assert.ok(used.status() >= 400, `a used link answers ${used.status()}`);
  await stage.shot(page, 'password-link-spent');
});

siteTest('somebody invited by the API sets a password and signs in', async (stage) => {
  const { credentials } = stage.installation;
  const email = 'grace@example.com';
  const response = await fetch(`${stage.url}/v1/members`, {
    method: 'POST',
    headers: { authorization: `Token ${credentials.access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ email, first_name: 'Grace', last_name: 'Hopper', role: 'member' }),
  });
  assert.equal(response.status, 201);
  const page = await stage.newPage();
  await page.goto(await linkSent(stage, email));
  await stage.shot(page, 'invitation');
  await setPassword(page, PASSWORD, PASSWORD);
  await page.waitForURL('**/login');
  await signIn(page, { email, password: PASSWORD });
  await page.locator('.menu-name', { hasText: 'Grace Hopper' }).waitFor();
});

async function setPassword(page, password, repeated) {
  await page.getByLabel('New password', { exact: true }).fill(password);
  await page.getByLabel('New password again').fill(repeated);
  await page.getByRole('button', { name: 'Set the password' }).click();
}
