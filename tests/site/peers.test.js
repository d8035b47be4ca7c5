// The page of peers: who speaks ISO 8583 with the switch, what was said, and what could not be read.

import assert from 'node:assert/strict';
import net from 'node:net';

import { run } from './harness/command.js';
import { signIn } from './harness/people.js';
import { order, tell } from './harness/purchases.js';
import { siteTest } from './harness/stage.js';

/** Sends a message of the default dialect. */
async function say(stage, mti, ...elements) {
  return run(['send', '--connect', stage.switch.doors.iso8583, '--mti', mti, ...elements]);
}

/** Says what no dialect of the door is, and waits until the door has closed. */
async function babble(stage, bytes) {
  const [host, port] = stage.switch.doors.iso8583.split(':');
  const socket = net.connect(Number(port), host);
  socket.on('error', () => {});
  socket.end(bytes);
  await new Promise((resolve) => socket.resume().once('close', resolve));
}

siteTest('peers, their messages and what was wrong are shown', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.getByRole('link', { name: 'Peers' }).click();
  await page.getByText('No peer has connected yet.').waitFor();
  await stage.shot(page, 'peers-none');

  const [host, port] = stage.switch.doors.iso8583.split(':');
  const peer = net.connect(Number(port), host);
  const message = Buffer.concat([Buffer.from('0800'), Buffer.from('82200000000000000400000000000000', 'hex'), Buffer.from('0101000001000001001')]);
  peer.write(Buffer.concat([Buffer.from([0, message.length]), message]));
  await new Promise((resolve) => peer.once('data', resolve));

  const card = await order(stage);
  const { card_number: number } = await (await fetch(`${stage.url}/network/v1/cards/${card.id}`, {
    headers: { authorization: `Bearer ${stage.installation.credentials.network_key}` },
  })).json();
  for (const amount of [1250, 99999999]) {
    await say(stage, '0100', `2=${number}`, '3=000000', `4=${amount}`, '18=5812', '49=840');
  }
  await tell(stage, 'authorizations', { card_id: card.id, amount: 1, merchant: { mid: 1, mcc: 5812, name: 'x' } });
  await babble(stage, '0055' + '0800822000000000000004000000000000000101000001000001301');
  await babble(stage, 'GET / HTTP/1.1\r\n\r\n');

  await page.getByRole('link', { name: 'Refresh' }).click();
  const row = page.locator('section.sheet').filter({ hasText: '127.0.0.1' });
  await row.getByText('Signed on').waitFor();
  const text = await row.innerText();
  assert.match(text, /1 open connection · 3 messages answered · 1 not approved/);
  assert.match(text, /over a limit/);
  assert.ok(text.includes(number.slice(-4)), text);
  assert.match(text, /start with --dialect ascii-hex --length ascii4/);
  assert.match(text, /HTTP/);
  const html = await page.content();
  assert.ok(!html.includes(number) && !html.includes(number.slice(0, 8)), 'no card number is shown');
  await row.getByText('00 approved').first().waitFor();
  await stage.shot(page, 'peers');
  await page.emulateMedia({ colorScheme: 'dark' });
  await stage.shot(page, 'peers-dark');
  await page.emulateMedia({ colorScheme: 'light' });

  // A message leads to its transaction.
  await row.locator('li a').first().click();
  await page.waitForURL(/\/transactions\/[0-9a-f-]{36}$/);

  peer.end();
  await new Promise((resolve) => peer.once('close', resolve));
  // The switch learns of it a moment later.
  do await page.goto('/peers');
  while ((await page.getByText('Disconnected').count()) === 0);
});

siteTest(
  'another company sees counts and no card of this one, and a member sees nothing',
  async (stage) => {
    const card = await order(stage);
    const { card_number: number } = await (await fetch(`${stage.url}/network/v1/cards/${card.id}`, {
      headers: { authorization: `Bearer ${stage.installation.credentials.network_key}` },
    })).json();
    await say(stage, '0100', `2=${number}`, '3=000000', '4=1250', '18=5812', '49=840');
    const lastFour = number.slice(-4);

    const own = await stage.newPage();
    await signIn(own, stage.installation.administrator);
    await own.goto('/peers');
    assert.ok((await own.locator('section.sheet').innerText()).includes(lastFour));

    const foreign = await stage.newPage();
    await signIn(foreign, stage.prepared.foreigner);
    await foreign.goto('/peers');
    const text = await foreign.locator('section.sheet').innerText();
    assert.match(text, /00 approved/);
    assert.ok(!text.includes(lastFour), text);
    assert.equal(await foreign.locator('section.sheet a').count(), 0);

    const member = await stage.newPage();
    await signIn(member, stage.prepared.member);
    assert.equal(await member.getByRole('link', { name: 'Peers' }).count(), 0);
    const refused = await member.request.get('/peers', { headers: { accept: 'text/html' } });
    assert.equal(refused.status(), 403);
  },
  async (installation) => {
    const company = await installation.addCompany('Elsewhere');
    const foreigner = await installation.addUser({ email: 'far@example.com', role: 'administrator', company });
    const member = await installation.addUser({ email: 'near@example.com', role: 'member' });
    return { foreigner, member };
  },
);
