// Statements: balances, lines by month, and files of them.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import { enterPassword, signIn, signOut } from './harness/people.js';
import { buy, order, tell } from './harness/purchases.js';
import { siteTest } from './harness/stage.js';

siteTest('a month is shown and saved in three forms', async (stage) => {
  const card = await order(stage, { amount: 5000 });
  for (let count = 1; count <= 55; count += 1) {
    const { transaction_id: id } = await buy(stage, card, count);
    await tell(stage, 'presentments', { transaction_id: id, amount: count });
  }
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/statements');
  await stage.shot(page, 'statements');
  assert.equal(await page.locator('tbody tr').count(), 50);
  await page.getByRole('link', { name: 'Older' }).click();
  assert.equal(await page.locator('tbody tr').count(), 6);
  await page.getByRole('link', { name: /Luigi/ }).first().click();
  assert.match(new URL(page.url()).pathname, /^\/transactions\//);

  await page.goto('/statements');
  const starts = { CSV: 'date,number,', OFX: '<?xml', PDF: '%PDF-' };
  for (const [name, start] of Object.entries(starts)) {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: new RegExp(`^${name} (to|for) `) }).click(),
    ]);
    assert.match(download.suggestedFilename(), new RegExp(`^statement-.*\\.${name.toLowerCase()}$`));
    const content = await readFile(await download.path(), 'latin1');
    assert.ok(content.startsWith(start), `${name}: ${content.slice(0, 100)}`);
    assert.ok(name === 'PDF' || content.includes('Luigi'), name);
  }

  await page.getByLabel('From', { exact: true }).fill('2020-01-01');
  await page.getByRole('button', { name: 'CSV for spreadsheets' }).click();
  await page.locator('#start_date-error').waitFor();
  assert.equal(await page.getByLabel('From', { exact: true }).inputValue(), '2020-01-01');
  await stage.shot(page, 'statements-refused');
});

siteTest('the days people ask for are there under their words', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/statements');
  const ranges = await page.locator('section[aria-labelledby=download] li strong').allTextContents();
  assert.match(ranges[0], /^[A-Z][a-z]+ \d{4} \(to date\)$/);
  assert.equal(ranges.at(-1), 'The last 180 days');
  for (const range of ranges) {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: `CSV of ${range}` }).click(),
    ]);
    assert.match(await readFile(await download.path(), 'latin1'), /^date,number,/, range);
  }
  assert.equal(new URL(page.url()).pathname, '/statements');
});

siteTest('a statement asked for by a page left open across a sign-out waits for who signs in', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/statements');
  const other = await page.context().newPage();
  await other.goto('/account');
  await signOut(other);
  let downloads = 0;
  page.on('download', () => { downloads += 1; });
  await page.getByRole('button', { name: 'CSV for spreadsheets' }).click();
  await page.waitForURL('**/login**');
  assert.equal(downloads, 0);
  const download = page.waitForEvent('download');
  await enterPassword(page, stage.installation.administrator);
  assert.match((await download).suggestedFilename(), /\.csv$/);
});

siteTest('statements are for administrators and accountants', async (stage) => {
  for (const [name, status] of [['accountant', 200], ['reviewer', 403], ['member', 403]]) {
    const page = await stage.newPage();
    await signIn(page, stage.prepared[name]);
    const answer = await page.goto('/statements');
    assert.equal(answer.status(), status, name);
    if (status === 200) await stage.shot(page, 'statements-few');
    await page.context().close();
  }
}, async (installation) => ({
  accountant: await installation.addUser({ email: 'acc@example.com', role: 'accountant' }),
  reviewer: await installation.addUser({ email: 'rev@example.com', role: 'reviewer' }),
  member: await installation.addUser({ email: 'mem@example.com', role: 'member' }),
}));
