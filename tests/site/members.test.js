// Members: invited, changed, let go with what ends shown first.

import assert from 'node:assert/strict';

import { PASSWORD } from './harness/installation.js';
import { linkSent } from './harness/outbox.js';
import { signIn, signOut } from './harness/people.js';
import { siteTest } from './harness/stage.js';

const JEAN = { first: 'Jean', last: 'Bartik', email: 'jean@example.com' };

async function people(installation) {
  return {
    member: await installation.addUser({ email: 'mary@example.com', role: 'member' }),
    reviewer: await installation.addUser({ email: 'grace@example.com', role: 'reviewer' }),
    accountant: await installation.addUser({ email: 'luca@example.com', role: 'accountant' }),
  };
}

async function invite(page, { first, last, email }) {
  await page.goto('/members/new');
  await page.getByLabel('First name').fill(first);
  await page.getByLabel('Last name').fill(last);
  await page.getByLabel('Email').fill(email);
  await page.getByRole('button', { name: 'Invite' }).click();
}

/** What `/v1` answers to the administrator's token. */
async function api(stage, method, path, body) {
  const { access_token: token } = stage.installation.credentials;
  const headers = { authorization: `Token ${token}`, 'content-type': 'application/json' };
  const response = await fetch(`${stage.url}${path}`, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${path}: ${text}`);
  return JSON.parse(text);
}

async function memberOf(stage, email) {
  return (await api(stage, 'GET', `/v1/members?email=${email}`)).results[0];
}

siteTest('somebody is invited, chooses a password and comes in', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Members' }).click();
  await stage.shot(page, 'members');
  await page.getByRole('link', { name: 'Invite a member' }).click();
  await stage.shot(page, 'member-new');
  await invite(page, JEAN);
  await page.getByText('Member invited.').waitFor();
  await stage.shot(page, 'member-invited');

  const jean = await stage.newPage();
  await jean.goto(new URL(await linkSent(stage, JEAN.email)).pathname);
  await jean.getByLabel('New password', { exact: true }).fill(PASSWORD);
  await jean.locator('input[name=repeated]').fill(PASSWORD);
  await jean.getByRole('button').first().click();
  await jean.waitForURL('**/login');
  await signIn(jean, { email: JEAN.email, password: PASSWORD });

  await page.getByRole('button', { name: 'Resend invitation' }).click();
  await page.getByText('is on its way').waitFor();
}, people);

siteTest('what is wrong with a member is told beside the field', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await invite(page, { ...JEAN, first: '"><script>alert(1)</script>' });
  await page.getByText('Member invited.').waitFor();
  await invite(page, { ...JEAN, email: 'JEAN@example.com' });
  await page.locator('#email-error').waitFor();
  await stage.shot(page, 'member-refused');
  assert.equal(await page.getByLabel('First name').inputValue(), 'Jean');
  await page.goto('/members?q=script');
  await page.getByRole('link', { name: '<script>alert(1)</script>' }).waitFor();
  assert.equal(await page.locator('main script').count(), 0);
  await page.goto('/members?q=nobody');
  await page.getByText('No members found').waitFor();
  await stage.shot(page, 'members-not-found');
}, people);

siteTest('a member is changed, and two who do so see each other', async (stage) => {
  const mary = await memberOf(stage, 'mary@example.com');
  await api(stage, 'POST', '/v1/departments', { name: 'Sales', code: '40' });
  const [one, other] = [await stage.newPage(), await stage.newPage({ colorScheme: 'dark' })];
  for (const page of [one, other]) {
    await signIn(page, stage.installation.administrator);
    await page.goto(`/members/${mary.id}`);
  }
  await one.getByLabel('Department').selectOption('Sales (40)');
  await one.getByLabel('Role').selectOption('Reviewer');
  await one.getByRole('button', { name: 'Save' }).click();
  await one.getByText('Member saved.').waitFor();
  await stage.shot(one, 'member-saved');
  await other.getByLabel('Last name').fill('Keller');
  await other.getByRole('button', { name: 'Save' }).click();
  await other.getByText('someone else changed this while you had it open: role and department').waitFor();
  await stage.shot(other, 'member-changed-dark');
  assert.equal((await memberOf(stage, 'mary@example.com')).last_name, 'Lovelace');
}, people);

siteTest('what ends is shown before a member leaves, and then it ends', async (stage) => {
  const mary = await memberOf(stage, 'mary@example.com');
  const own = { assigned_to: { id: mary.id }, is_virtual: true };
  for (const description of ['Team lunches', 'Travel']) {
    await api(stage, 'POST', '/v1/cards', { ...own, description, allowance: { amount: 100 } });
  }
  await api(stage, 'POST', '/v1/requisitions', { member: { id: mary.id }, amount: 5, description: 'Pens' });
  const hers = await stage.newPage();
  await signIn(hers, stage.prepared.member);

  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto(`/members/${mary.id}`);
  await stage.shot(page, 'member');
  await page.getByRole('link', { name: 'Deactivate' }).click();
  await page.getByText('2 cards are closed').waitFor();
  await stage.shot(page, 'member-deactivate');
  await page.getByRole('checkbox', { name: /Yes, deactivate/ }).check();
  await page.getByRole('button', { name: 'Deactivate' }).click();
  await page.getByText('Member deactivated.').waitFor();
  await stage.shot(page, 'member-deactivated');
  const cards = (await api(stage, 'GET', '/v1/cards')).results;
  assert.deepEqual(cards.map(({ state }) => state), ['terminated', 'terminated']);
  await hers.goto('/requisitions');
  assert.equal(new URL(hers.url()).pathname, '/login', 'who takes no part is signed out');

  await page.getByRole('button', { name: 'Reactivate' }).click();
  await page.getByText('Member reactivated.').waitFor();
  await page.getByRole('link', { name: 'Delete' }).click();
  await stage.shot(page, 'member-delete');
  await page.getByRole('checkbox', { name: /Yes, delete/ }).check();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Member deleted.').waitFor();
  await page.goto(`/members/${mary.id}`);
  await stage.shot(page, 'member-deleted');
}, people);

siteTest('the last administrator cannot leave', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const own = await memberOf(stage, stage.installation.administrator.email);
  await page.goto(`/members/${own.id}/deactivate`);
  await page.getByText('This is you.').waitFor();
  await page.getByRole('checkbox', { name: /Yes, deactivate/ }).check();
  await page.getByRole('button', { name: 'Deactivate' }).click();
  await page.getByText('no active administrator').waitFor();
  await stage.shot(page, 'member-last-administrator');
});

siteTest('members are seen by who works with them, and managed by administrators', async (stage) => {
  const mary = await memberOf(stage, 'mary@example.com');
  for (const [name, seen] of [['accountant', 200], ['reviewer', 200], ['member', 403]]) {
    const page = await stage.newPage();
    await signIn(page, stage.prepared[name]);
    for (const path of ['/members', `/members/${mary.id}`]) {
      assert.equal((await page.goto(path)).status(), seen, `${name} ${path}`);
      await stage.shot(page, `members-for-${name}${path === '/members' ? '' : '-one'}`);
    }
    for (const path of ['/members/new', `/members/${mary.id}/deactivate`]) {
      assert.equal((await page.goto(path)).status(), 403, `${name} ${path}`);
    }
    await page.context().close();
  }
}, people);

siteTest('pages left open across a sign-out invite nobody and let nobody go', async (stage) => {
  const mary = await memberOf(stage, 'mary@example.com');
  const invitation = await stage.newPage();
  await signIn(invitation, stage.installation.administrator);
  const leaving = await invitation.context().newPage();
  const other = await invitation.context().newPage();
  await invitation.goto('/members/new');
  await invitation.getByLabel('First name').fill(JEAN.first);
  await invitation.getByLabel('Last name').fill(JEAN.last);
  await invitation.getByLabel('Email').fill(JEAN.email);
  await leaving.goto(`/members/${mary.id}/deactivate`);
  await leaving.getByRole('checkbox', { name: /Yes, deactivate/ }).check();
  await other.goto('/account');
  await signOut(other);
  await invitation.getByRole('button', { name: 'Invite' }).click();
  await leaving.getByRole('button', { name: 'Deactivate' }).click();
  for (const page of [invitation, leaving]) await page.waitForURL('**/login**');
  assert.equal(await memberOf(stage, JEAN.email), undefined);
  assert.equal((await memberOf(stage, mary.email)).is_active, true);
}, people);
