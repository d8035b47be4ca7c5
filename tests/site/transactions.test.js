// Transactions: looked for, explained, sorted, and their receipts.

import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';

import { signIn, signOut } from './harness/people.js';
import { buy, change, memberOf, order, tell } from './harness/purchases.js';
import { siteTest } from './harness/stage.js';

const PDF = { name: 'lunch.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-1.7 lunch') };
// The smallest picture there is: one grey dot.
const PNG = {
  name: 'lunch.png',
  mimeType: 'image/png',
  buffer: Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==',
    'base64',
  ),
};
const PERSON = { email: 'mem@example.com', role: 'member' };

/** A card with purchases of every fate; returns their transactions. */
async function shop(stage, rest = {}) {
  const card = await order(stage, { ...rest, allowance: { amount: 200, transaction_limit: 150, interval: 'weekly' } });
  const lunch = await buy(stage, card, 42.5);
  const dinner = await buy(stage, card, 100);
  await tell(stage, 'increments', { transaction_id: dinner.transaction_id, amount: 20 });
  await tell(stage, 'increments', { transaction_id: dinner.transaction_id, amount: 90 });
  await tell(stage, 'presentments', { transaction_id: dinner.transaction_id, amount: 118.4 });
  const taxi = await buy(stage, card, 12);
  await tell(stage, 'reversals', { transaction_id: taxi.transaction_id });
  const party = await buy(stage, card, 999);
  assert.equal(party.approved, false);
  const ids = { lunch, dinner, taxi, party };
  return Object.fromEntries(Object.entries(ids).map(([name, { transaction_id: id }]) => [name, id]));
}

siteTest('purchases are listed, looked for and explained', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/transactions');
  await stage.shot(page, 'transactions-few');
  const bought = await shop(stage);
  await page.goto('/transactions');
  await stage.shot(page, 'transactions');
  assert.equal(await page.locator('tbody tr').count(), 5);

  await page.getByLabel('Status').selectOption('Declined');
  await page.getByRole('button', { name: 'Filter' }).click();
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.getByRole('link', { name: 'Luigi’s Trattoria' }).click();
  assert.equal(new URL(page.url()).pathname, `/transactions/${bought.party}`);
  await page.getByText('Declined: Over the per-transaction limit').waitFor();
  await stage.shot(page, 'transaction-declined');
  await page.getByText('rules passed').click();
  await stage.shot(page, 'transaction-declined-rules');

  await page.goto(`/transactions/${bought.dinner}`);
  await page.getByText('Incremental authorization declined').waitFor();
  await page.getByText(/Posted \(statement line \d+\)/).waitFor();
  await stage.shot(page, 'transaction-completed');
  for (const name of ['lunch', 'taxi']) {
    await page.goto(`/transactions/${bought[name]}`);
    await stage.shot(page, `transaction-${name}`);
  }

  await page.goto('/transactions?from=2031-01-01');
  await page.getByText('No matching transactions').waitFor();
  await stage.shot(page, 'transactions-none-found');
  await page.goto('/transactions?from=soon&to=%22%3E%3Cscript%3E');
  await page.getByRole('alert').waitFor();
  await stage.shot(page, 'transactions-refused');
});

siteTest('a deposit has a page of its own', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const { account_id: account } = stage.installation.credentials;
  const bank = { description: 'Monthly top-up', name: 'First Bank', number: '0009876' };
  await tell(stage, 'transfers', { account_id: account, amount: 5000, bank_account: bank, settled: false });
  await page.goto('/transactions');
  await page.getByRole('link', { name: 'First Bank' }).click();
  await page.getByText('Card rules don’t apply to bank transfers.').waitFor();
  await stage.shot(page, 'transaction-deposit');
});

siteTest('a transaction is sorted and noted, and two who do see each other', async (stage) => {
  const { lunch } = await shop(stage);
  const travel = await change(stage, 'POST', '/v1/categories', { name: 'Travel', code: '6000' });
  await change(stage, 'POST', '/v1/categories', { name: 'Meals', parent: { id: travel.id } });
  await change(stage, 'POST', '/v1/departments', { name: 'Sales' });
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto(`/transactions/${lunch}`);
  const open = await page.context().newPage();
  await open.goto(`/transactions/${lunch}`);

  await page.getByLabel('Category').selectOption('Travel › Meals');
  await page.getByLabel('Note').fill('Lunch with <b>Ada</b>\nand \u{1f9fe}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Transaction saved.').waitFor();
  assert.equal(await page.getByLabel('Note').inputValue(), 'Lunch with <b>Ada</b>\nand \u{1f9fe}');
  await stage.shot(page, 'transaction-saved');

  await open.getByLabel('Note').fill('Mine');
  await open.getByRole('button', { name: 'Save' }).click();
  await open.getByText('someone else changed this while you had it open').waitFor();
  assert.match(await open.getByLabel('Note').inputValue(), /^Lunch with/);
  await open.getByLabel('Note').fill('Mine');
  await open.getByRole('button', { name: 'Save' }).click();
  await open.getByText('Transaction saved.').waitFor();
});

siteTest('a receipt is handed in, looked at, replaced and deleted', async (stage) => {
  const { lunch } = await shop(stage);
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto(`/transactions/${lunch}`);
  const file = page.getByLabel('File');
  await file.setInputFiles({ name: 'page.pdf', mimeType: 'application/pdf', buffer: Buffer.from('<script>') });
  await page.getByRole('button', { name: 'Upload receipt' }).click();
  await page.getByText('That file isn’t a PNG, JPEG or PDF').waitFor();
  await stage.shot(page, 'receipt-refused');
  await file.setInputFiles({ name: 'big.pdf', mimeType: 'application/pdf', buffer: Buffer.alloc(10 * 2 ** 20 + 1, 32) });
  await page.getByRole('button', { name: 'Upload receipt' }).click();
  await page.getByText('The file is larger than 10 MiB.').waitFor();

  await file.setInputFiles(PDF);
  await page.getByRole('button', { name: 'Upload receipt' }).click();
  await page.getByText('Receipt uploaded.').waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'lunch.pdf' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'lunch.pdf');

  await page.getByLabel('Replace file').setInputFiles(PNG);
  await page.getByRole('button', { name: 'Upload receipt' }).click();
  await page.getByRole('link', { name: 'lunch.png' }).waitFor();
  await page.getByText('Preview').click();
  await page.getByRole('img', { name: 'The receipt' }).scrollIntoViewIfNeeded();
  await stage.shot(page, 'receipt-shown');
  await page.getByText('Delete receipt').click();
  await page.getByRole('button', { name: 'Yes, delete the receipt' }).click();
  await page.getByText('Receipt deleted.').waitFor();
  await page.getByText('No receipt?').click();
  await page.getByRole('button', { name: 'Mark as lost' }).click();
  await page.getByText('Marked as lost on').waitFor();
  await stage.shot(page, 'receipt-lost');
});

siteTest('members see their own, without the account, and hand in receipts', async (stage) => {
  const member = await memberOf(stage, PERSON.email);
  const own = await shop(stage, { assigned_to: { id: member.id } });
  const others = await shop(stage, { description: 'Servers' });
  const page = await stage.newPage();
  await signIn(page, stage.prepared);
  await page.goto('/transactions');
  assert.equal(await page.getByText('Servers').count(), 0);
  await stage.shot(page, 'transactions-for-member');
  assert.equal((await page.goto(`/transactions/${others.lunch}`)).status(), 404);
  await page.goto(`/transactions/${own.lunch}`);
  await stage.shot(page, 'transaction-for-member');
  await page.getByLabel('Note').fill('Lunch with a client');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Transaction saved.').waitFor();
  await page.getByLabel('File').setInputFiles(PDF);
  await page.getByRole('button', { name: 'Upload receipt' }).click();
  await page.getByText('Receipt uploaded.').waitFor();

  // A page left open across a sign-out leads to sign-in and changes nothing.
  const open = await page.context().newPage();
  await open.goto(`/transactions/${own.lunch}`);
  await signOut(page);
  await open.getByLabel('Note').fill('Too late');
  await open.getByRole('button', { name: 'Save' }).click();
  await open.waitForURL('**/login**');
}, (installation) => installation.addUser(PERSON));
