// Forms that were refused, under axe-core: reading begins at what is said above them, and whatever is
// wrong with a field is told of the field itself. The typed values stay.

import assert from 'node:assert/strict';

import { findings } from './harness/axe.js';
import { furnish } from './harness/company.js';
import { focusAtAlert } from './harness/keyboard.js';
import { signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

/** What is typed into each form, by labels, and the fields that are then wrong. */
function forms({ cards, dimensions, transactions }) {
  const card = `/cards/${cards.lunch.id}`;
  const category = `/dimensions/categories/${dimensions.travel.id}`;
  return [
    { at: '/cards/new', type: { Budget: 'a lot', 'Cardholder': 'nobody@example.com' }, button: 'Create card', wrong: ['amount', 'description', 'holder'] },
    { at: `${card}/edit`, type: { Description: '' }, button: 'Save', wrong: ['description'] },
    { at: `${card}/allowance`, type: { Budget: '1,5', 'Daily limit': '-1' }, button: 'Save', wrong: ['amount', 'daily_limit'] },
    { at: `${card}/links/new`, type: { 'Email': 'nobody' }, button: 'Create link', wrong: ['email', 'name'] },
    { at: `/transactions/${transactions[0].id}`, type: { Note: 'x'.repeat(1_001) }, button: 'Save', wrong: ['note'] },
    { at: '/dimensions/categories', type: { Name: '', Code: '6-1' }, button: 'Create category', wrong: ['code', 'name'] },
    { at: category, type: { Name: 'x'.repeat(201), Code: 'six' }, button: 'Save', wrong: ['code', 'name'] },
  ];
}

/** Whatever a browser would hold back is sent all the same. */
function letThrough() {
  for (const form of document.forms) form.noValidate = true;
  for (const field of document.querySelectorAll('[maxlength]')) field.removeAttribute('maxlength');
}

/** Runs in the page: each field that is wrong, and what is told of it. */
function wrongFields() {
  return [...document.querySelectorAll('[aria-invalid=true]')].map((field) => {
    const ids = (field.getAttribute('aria-describedby') ?? '').split(' ').filter((id) => id !== '');
    return { id: field.id, told: ids.map((id) => document.getElementById(id)?.textContent.trim() ?? '').join(' ') };
  });
}

async function check(page, where, expected) {
  await page.getByRole('alert').waitFor();
  await focusAtAlert(page);
  const wrong = await page.evaluate(wrongFields);
  assert.deepEqual(wrong.map(({ id }) => id).sort(), expected, where);
  for (const { id, told } of wrong) assert.notEqual(told, '', `${where}: nothing is told of ${id}`);
  return (await findings(page)).map((finding) => `${where}: ${finding}`);
}

siteTest('axe finds nothing on forms that were refused, and errors are told of their fields', async (stage) => {
  const company = await furnish(stage, 'member@example.com');
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const found = [];
  for (const { at, type, button, wrong } of forms(company)) {
    await page.goto(at);
    await page.evaluate(letThrough);
    for (const [label, text] of Object.entries(type)) await page.getByLabel(label).first().fill(text);
    await page.getByRole('button', { name: button }).click();
    found.push(...(await check(page, at, wrong)));
    for (const [label, text] of Object.entries(type)) assert.equal(await page.getByLabel(label).first().inputValue(), text, `${at}: ${label} stays as it was typed`);
  }
  await page.goto('/transactions?from=soon');
  found.push(...(await check(page, '/transactions', ['from'])));
  assert.deepEqual(found, []);
}, (installation) => installation.addUser({ email: 'member@example.com', role: 'member' }));

siteTest('of two who edit one category the second is told', async (stage) => {
  const { dimensions } = await furnish(stage, 'member@example.com');
  const [one, other] = [await stage.newPage(), await stage.newPage()];
  for (const page of [one, other]) {
    await signIn(page, stage.installation.administrator);
    await page.goto(`/dimensions/categories/${dimensions.meals.id}`);
  }
  await one.getByLabel('Name').fill('Food');
  await one.getByRole('button', { name: 'Save' }).click();
  await one.getByText('Saved.').waitFor();
  await other.getByLabel('Name').fill('Dinners');
  await other.getByRole('button', { name: 'Save' }).click();
  await other.getByText('someone else changed this while you had it open: name.').waitFor();
  assert.equal(await other.getByLabel('Name').inputValue(), 'Food');
  assert.deepEqual(await findings(other), []);
}, (installation) => installation.addUser({ email: 'member@example.com', role: 'member' }));

siteTest('what is one of very many is chosen by its name, by keyboard and without JavaScript', async (stage) => {
  const { api, cards } = await furnish(stage, 'member@example.com');
  for (let number = 100; number < 330; number += 1) await api.post('/v1/labels', { name: `Project ${number}`, code: `${number}` });
  const page = await stage.newPage({ javaScriptEnabled: false });
  await signIn(page, stage.installation.administrator);
  await page.goto(`/cards/${cards.travel.id}/edit`);
  await page.getByLabel('Label').fill('project 217');
  await page.getByLabel('Label').press('Enter');
  await page.getByText('Card saved.').waitFor();
  await page.goto(`/cards/${cards.travel.id}/edit`);
  assert.equal(await page.getByLabel('Label').inputValue(), 'Project 217 (217)');
  await page.getByLabel('Description').fill('Journeys');
  await page.getByLabel('Description').press('Enter');
  await page.getByText('Card saved.').waitFor();
  await page.getByText('Project 217').waitFor();
  await page.goto(`/cards/${cards.travel.id}/edit`);
  await stage.shot(page, 'card-edit-of-many');
  await page.getByLabel('Label').fill('ject 30');
  await page.getByLabel('Label').press('Enter');
  await page.locator('#label-error').waitFor();
  assert.equal(await page.locator('#label-list option').count(), 10, 'those that fit are suggested');
  await stage.shot(page, 'card-edit-of-many-refused');
}, (installation) => installation.addUser({ email: 'member@example.com', role: 'member' }));
