// Webhook endpoints on the site: added, tried, replaced secrets, deleted; signatures are verified by the
// Standard Webhooks library.

import assert from 'node:assert/strict';
import http from 'node:http';

import { Webhook } from 'standardwebhooks';

import { signIn, signOut } from './harness/people.js';
import { siteTest } from './harness/stage.js';

/** A receiver on loopback that answers with `status` and keeps what it was sent. */
async function startReceiver() {
  const hooks = [];
  const receiver = { hooks, status: 204, answer: undefined };
  const server = http.createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    hooks.push({ headers: request.headers, body: Buffer.concat(pieces).toString() });
    response.writeHead(receiver.status).end(receiver.answer);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  receiver.url = `http://127.0.0.1:${server.address().port}/hook`;
  receiver.stop = () => server.close();
  return receiver;
}

siteTest('an endpoint is added, tried and given a new secret', async (stage) => {
  const receiver = await startReceiver();
  try {
    const page = await stage.newPage();
    await signIn(page, stage.installation.administrator);
    await page.goto('/webhooks');
    await stage.shot(page, 'webhooks-none');
    await page.getByRole('link', { name: 'Add an endpoint' }).click();
    await page.getByLabel('Address').fill('http://169.254.169.254/');
    await page.getByLabel('Description').fill('<b>Ledger</b>');
    await page.getByRole('button', { name: 'Add' }).click();
    await page.locator('.field-error').waitFor();
    await stage.shot(page, 'webhook-refused');
    assert.equal(await page.getByLabel('Description').inputValue(), '<b>Ledger</b>');
    await page.getByLabel('Address').fill(receiver.url);
    await page.getByRole('button', { name: 'Add' }).click();
    const secret = await page.locator('code.secret').textContent();
    assert.match(secret, /^whsec_/);
    await page.getByRole('button', { name: 'Copy signing secret' }).waitFor();
    await stage.shot(page, 'webhook-secret');
    await page.getByRole('link', { name: 'Done' }).click();
    await stage.shot(page, 'webhook-new');

    await page.getByRole('button', { name: 'Send test event' }).click();
    await page.locator('p.notice[role=status]').getByText('Delivered (204)').waitFor();
    const [hook] = receiver.hooks;
    const [event] = new Webhook(secret).verify(hook.body, hook.headers);
    assert.equal(event.event, 'transaction.created');
    assert.throws(() => new Webhook(secret).verify(`${hook.body} `, hook.headers));

    receiver.status = 500;
    receiver.answer = 'out of <i>paper</i>';
    await page.getByRole('button', { name: /^Resend/ }).first().click();
    await page.locator('p.alert[role=status]').getByText('Failed (500 Internal Server Error)').waitFor();
    // The newest try shows what was sent, and what came back.
    const newest = page.getByRole('row').nth(1);
    await newest.getByText('Bodies').click();
    await newest.getByText(receiver.hooks.at(-1).body).waitFor();
    await newest.getByText('out of <i>paper</i>').waitFor();
    await stage.shot(page, 'webhook-attempts');
    receiver.answer = undefined;
    assert.ok(!(await page.content()).includes(secret), 'a secret is shown once');

    receiver.status = 204;
    await page.getByRole('button', { name: 'Rotate secret' }).click();
    const replaced = await page.locator('code.secret').textContent();
    await page.getByRole('link', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Send test event' }).click();
    await page.locator('p.notice[role=status]').getByText('Delivered (204)').waitFor();
    const last = receiver.hooks.at(-1);
    for (const known of [secret, replaced]) new Webhook(known).verify(last.body, last.headers);

    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByText('Endpoint disabled.').waitFor();
    await stage.shot(page, 'webhook-off');
    await page.goto('/webhooks');
    await stage.shot(page, 'webhooks');
    await page.getByRole('link', { name: receiver.url }).click();
    await page.getByLabel('Yes, delete').check();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Endpoint deleted.').waitFor();
  } finally {
    receiver.stop();
  }
});

siteTest('a page left open across a sign-out changes nothing', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/webhooks/new');
  const other = await page.context().newPage();
  await other.goto('/account');
  await signOut(other);
  await page.getByLabel('Address').fill('https://hooks.example.com/');
  await page.getByRole('button', { name: 'Add' }).click();
  assert.ok(!(await page.content()).includes('whsec_'));
});
