// A page of another origin that has the browser of somebody near the switch send what it likes to every port the switch
// listens at. Browsers ask nobody before they send such requests: what arrives must move no money.

import assert from 'node:assert/strict';
import net from 'node:net';

import { Api, makeCard } from './harness/api.js';
import { siteTest } from './harness/stage.js';

/** So many zeros that, whatever a length made of letters skips, what follows is a row of empty frames. */
const ZEROS = 70_000;

/** A request that is not answered is given up after so long: where it arrived, what it carried has been done by then. */
const PATIENCE_MS = 5_000;

/** A refund over ISO 8583, framed: type, bitmap of DE2, 3, 4 and 11, and these. All of it is ASCII, so that texts hold it. */
function refund(pan, stan) {
  const fields = [`${pan.length}${pan}`, '200000', '000000005000', `${stan}`.padStart(6, '0')];
  const message = `0220\x70\x20${'\0'.repeat(6)}${fields.join('')}`;
  return `\0${String.fromCharCode(message.length)}${message}`;
}

/** Runs in the page: everything that a page may send to another origin without being asked. */
async function sendAll({ url, body, patience }) {
  const bytes = new TextEncoder().encode(body);
  const form = new FormData();
  form.append('file', new Blob([bytes]), 'a');
  const bodies = [bytes, body, new Blob([bytes]), new Blob([bytes], { type: 'text/plain' }), form];
  for (const method of ['GET', 'HEAD']) {
    // Of these nothing is expected but that they are sent.
    fetch(url, { method, mode: 'no-cors' }).catch(() => {});
  }
  fetch(url, { method: 'PUT', body }).catch(() => {});
  navigator.sendBeacon(url, bytes.slice(0, 60_000));
  const signal = AbortSignal.timeout(patience);
  const send = (sent) => fetch(url, { method: 'POST', mode: 'no-cors', body: sent, signal });
  await Promise.allSettled(bodies.map(send));
}

/** Sends a form from the page into a frame of it, and waits until the browser is done with it. */
async function sendForm(page, { url, enctype, body }) {
  const done = new Promise((resolve) => {
    const note = (request) => request.url() === url && resolve();
    page.on('requestfailed', note);
    page.on('requestfinished', note);
    setTimeout(resolve, PATIENCE_MS).unref();
  });
  await page.evaluate((given) => {
    const frame = document.createElement('iframe');
    frame.name = `frame${document.querySelectorAll('iframe').length}`;
    const form = document.createElement('form');
    Object.assign(form, { method: 'post', action: given.url, enctype: given.enctype, target: frame.name });
    const field = document.createElement('input');
    Object.assign(field, { type: 'hidden', name: 'a', value: given.body });
    form.append(field);
    document.body.append(frame, form);
    form.submit();
  }, { url, enctype, body });
  await done;
}

/** What the door answers to a message that comes alone. */
function ask(address, message) {
  const [host, port] = address.split(':');
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), host, () => socket.write(message, 'latin1'));
    socket.on('error', reject);
    socket.once('data', (answer) => {
      socket.destroy();
      resolve(answer.toString('latin1'));
    });
  });
}

siteTest('no page of another origin moves money by what it sends to the ports of the switch', async (stage) => {
  const api = new Api(stage);
  const card = await makeCard(api);
  const { number } = await api.get(`/v1/cards/${card.id}/number`);
  const account = `/v1/accounts/${stage.installation.credentials.account_id}`;
  const state = async () => {
    const { ledger_balance: balance } = await api.get(account);
    const { results } = await api.get('/v1/transactions');
    return { balance, transactions: results.length };
  };
  const before = await state();
  const page = await stage.newForeignPage();
  await page.goto(stage.receiver.url);
  let stan = 0;
  for (const door of Object.values(stage.switch.doors)) {
    // In one of two bodies the empty frames are in step with the message.
    for (const shift of [0, 1]) {
      stan += 1;
      const body = '\0'.repeat(ZEROS + shift) + refund(number, stan);
      await page.evaluate(sendAll, { url: `http://${door}/fetch${shift}`, body, patience: PATIENCE_MS });
      for (const enctype of ['text/plain', 'multipart/form-data', 'application/x-www-form-urlencoded']) {
        await sendForm(page, { url: `http://${door}/${enctype}/${shift}`, enctype, body });
      }
    }
  }
  const figures = await (await fetch(`http://${stage.switch.doors.metrics}/metrics`)).text();
  const figure = (name) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(figures)?.[1]);
  assert.equal(figure('cardswitch_iso8583_messages_total'), 0, 'a message reached the engine');
  assert.deepEqual(await state(), before);
  assert.ok(figure('cardswitch_iso8583_connections_cut_total') > 0, 'the requests did arrive');
  assert.match(await stage.switch.log(), /an HTTP request/);

  // The message is one that is carried out where it comes alone.
  const answer = await ask(stage.switch.doors.iso8583, refund(number, 99));
  assert.equal(answer.slice(2, 6), '0230');
  assert.notDeepEqual(await state(), before);
});
