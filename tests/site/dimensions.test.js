// Categories and their like: made, changed, deleted; once by keyboard alone.

import assert from 'node:assert/strict';

import { signIn } from './harness/people.js';
import { change, order } from './harness/purchases.js';
import { siteTest } from './harness/stage.js';

siteTest('a category is made, changed and deleted', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/dimensions');
  await stage.shot(page, 'dimensions-none');
  await page.getByLabel('Name').fill('Travel');
  await page.getByLabel('Code').fill('6000');
  await page.getByRole('button', { name: 'Create category' }).click();
  await page.getByText('Created.').waitFor();
  await page.getByLabel('Name').fill('Flights <script>alert(1)</script>');
  await page.getByLabel('Parent').selectOption('Travel (6000)');
  await page.getByRole('button', { name: 'Create category' }).click();
  await page.getByRole('link', { name: 'Flights' }).waitFor();
  await stage.shot(page, 'dimensions');

  await page.getByLabel('Name').fill('Trips');
  await page.getByLabel('Code').fill('60-00');
  await page.getByRole('button', { name: 'Create category' }).click();
  await page.locator('#code-error').waitFor();
  assert.equal(await page.getByLabel('Name').inputValue(), 'Trips');
  await stage.shot(page, 'dimensions-refused');

  await page.getByRole('link', { name: 'Travel', exact: true }).click();
  await stage.shot(page, 'dimension');
  await page.getByLabel('Name').fill('Journeys');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('link', { name: 'Journeys' }).click();
  const id = new URL(page.url()).pathname.split('/').at(-1);
  await order(stage, { category: { id } });
  await page.reload();
  await page.getByText('1 card (new purchases won’t have it)').waitFor();
  await page.getByText('1 child moves up one level').waitFor();
  await page.getByRole('checkbox', { name: 'Yes, delete Journeys' }).check();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('Deleted.').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Journeys' }).count(), 0);
  assert.equal(await page.locator('td.level-0').count(), 1, 'what was below it moved up');
});

siteTest('a label is made by keyboard alone', async (stage) => {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/dimensions/labels');
  await page.getByLabel('Name').focus();
  await page.keyboard.type('Offsite');
  await page.keyboard.press('Tab');
  await page.keyboard.type('42');
  await page.keyboard.press('Enter');
  await page.getByText('Created.').waitFor();
  await page.getByRole('link', { name: 'Offsite' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Offsite', level: 1 }).waitFor();
});

siteTest('a long tree has pages', async (stage) => {
  const parent = await change(stage, 'POST', '/v1/locations', { name: 'Everywhere' });
  for (let count = 10; count < 70; count += 1) {
    await change(stage, 'POST', '/v1/locations', { name: `Place ${count}`, parent: { id: parent.id } });
  }
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  await page.goto('/dimensions/locations');
  await page.getByText('1–50 of 61').waitFor();
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByText('51–61 of 61').waitFor();
  await stage.shot(page, 'dimensions-last-page');
});
