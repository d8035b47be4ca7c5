// The actions of people on the site, by the words they read.

import assert from 'node:assert/strict';

import { totpCode } from './totp.js';

/** Where people are once they have signed in; who is a member of nothing has an account only. */
export const START = /\/(overview|account)$/;

/** Fills in the sign-in form where the page shows it. */
export async function enterPassword(page, { email, password }) {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Signs in from the front page, without a second factor. */
export async function signIn(page, person) {
  await page.goto('/login');
  await enterPassword(page, person);
  await page.waitForURL(START);
}

/** Signs out by the menu. */
export async function signOut(page) {
  await page.locator('details.menu summary').click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.waitForURL('**/login');
}

/** Sends what an app sends to the token endpoint. */
export async function postToken(url, fields) {
  const response = await fetch(`${url}/v1/oauth/token`, { method: 'POST', body: new URLSearchParams(fields) });
  return { status: response.status, body: await response.json() };
}

/** What `/v1` answers to this token. */
export async function getApi(url, path, accessToken) {
  const headers = { authorization: `Token ${accessToken}` };
  const response = await fetch(`${url}${path}`, { headers });
  return { status: response.status, body: await response.json() };
}

/** Registers an app and returns its credentials; whoever does must be signed in as a developer. */
export async function registerApp(page, { name = 'Books', redirectUrls, scopes = [] }) {
  await page.goto('/apps/new');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Website').fill('https://books.example');
  await page.getByLabel('Redirect URLs').fill(redirectUrls.join('\n'));
  for (const scope of scopes) await page.getByRole('checkbox', { name: scope }).check();
  await page.getByRole('button', { name: 'Register' }).click();
  await page.getByRole('heading', { name: `${name} is registered` }).waitFor();
  const [clientId, clientSecret] = await page.locator('code.secret').allTextContents();
  assert.match(clientSecret, /^\S{32,}$/);
  return { clientId, clientSecret };
}

/** The address at which an app asks for access. */
export function authorizeUrl(url, parameters) {
  return `${url}/v1/oauth/authorize?${new URLSearchParams({ response_type: 'code', ...parameters })}`;
}

/**
 * Sets up one-time codes on the account page and returns the seed. Its code counts once: sign in with
 * the one after (`nextTotpCode`).
 */
export async function setUpTotp(page, password) {
  await page.goto('/account/totp');
  const seed = (await page.locator('code.secret').textContent()).replace(/\s/g, '');
  await page.getByLabel('Code').fill(totpCode(seed));
  await page.getByLabel('Current password').fill(password);
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.waitForURL('**/account');
  return seed;
}

/** Sets a security question on the account page. */
export async function setQuestion(page, password, { question, answer }) {
  await page.goto('/account/question');
  await page.getByLabel('Question').fill(question);
  await page.getByLabel('Answer').fill(answer);
  await page.getByLabel('Current password').fill(password);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.waitForURL('**/account');
}

/** Somebody of each role. */
export async function addUserOfEachRole(installation) {
  const people = {};
  for (const role of ['accountant', 'reviewer', 'member']) {
    people[role] = await installation.addUser({ email: `${role}@example.com`, role });
  }
  return people;
}
