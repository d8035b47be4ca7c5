// Forms that were refused, under axe-core: each says so at its top, where whoever sent it begins, and at
// each field that is wrong, whose fault assistive technology finds by the field.

import assert from 'node:assert/strict';

import { findings } from './harness/axe.js';
import { furnish } from './harness/company.js';
import { focusAtAlert } from './harness/keyboard.js';
import { registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

const LOOKS = [
  { viewport: { width: 1000, height: 800 }, colorScheme: 'light' },
  { viewport: { width: 360, height: 740 }, colorScheme: 'dark' },
];

/** What is typed where, the button, and the fields that are wrong then. */
function forms({ requisitions, holder }, webhook, clientId) {
  const requisition = `/requisitions/${requisitions[0].id}`;
  const member = `/members/${holder.id}`;
  return [
    ['/members/new', { first_name: ' ', last_name: 'Bartik', email: 'nobody' }, 'Invite', ['first_name', 'email']],
    [member, { first_name: '', last_name: 'Bartik' }, 'Save', ['first_name']],
    [`${member}/deactivate`, {}, 'Deactivate', []],
    ['/requisitions/new', { description: '', amount: 'about ten' }, 'Submit request', ['description', 'amount']],
    [requisition, { amount: '-5' }, 'Save', ['amount']],
    [requisition, {}, 'Withdraw request', []],
    ['/statements', { start_date: '2020-01-01' }, 'CSV for spreadsheets', ['start_date']],
    ['/webhooks/new', { delivery_url: 'http://169.254.169.254/', description: 'Books' }, 'Add', ['delivery_url']],
    [`/webhooks/${webhook.id}`, { delivery_url: 'nothing' }, 'Save', ['delivery_url']],
    [`/webhooks/${webhook.id}`, {}, 'Delete', []],
    ['/apps/new', { name: '', website: 'books', redirect_urls: 'http://books.example/' }, 'Register', ['name', 'website', 'redirect_urls']],
    [`/apps/${clientId}`, { website: '' }, 'Save', ['website']],
    [`/apps/${clientId}`, {}, 'Delete', []],
    ['/account/password', { old: 'wrong', password: 'short', repeated: 'other' }, 'Change the password', null],
    ['/account/question', { question: 'What?', answer: ' ', password: 'wrong' }, 'Save', null],
  ];
}

/** Sends the form as a browser does that checks nothing itself. */
async function send(page, path, fields, button) {
  await page.goto(path);
  await page.evaluate(() => document.querySelectorAll('form').forEach((form) => { form.noValidate = true; }));
  for (const [name, value] of Object.entries(fields)) await page.locator(`main #${name}`).fill(value);
  const answered = page.waitForResponse((response) => response.request().isNavigationRequest());
  await page.getByRole('button', { name: button, exact: true }).click();
  const status = (await answered).status();
  await page.waitForLoadState();
  return status;
}

/** Runs in the page: which fields are wrong, and whether each is told its fault. */
function wrongFields() {
  return [...document.querySelectorAll('.field-error')].map((fault) => {
    const field = document.querySelector(`[aria-describedby~="${fault.id}"]`);
    const isTold = field !== null && field.getAttribute('aria-invalid') === 'true' && fault.textContent.trim() !== '';
    return isTold ? field.name : `nobody is told: ${fault.textContent}`;
  });
}

siteTest('refused forms say so where people look, and axe finds nothing on them', async (stage) => {
  const company = await furnish(stage, 'member@example.com');
  const [webhook] = (await company.api.get('/v1/webhook-endpoints')).results;
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const { clientId } = await registerApp(page, { redirectUrls: [] });
  const found = [];
  for (const [path, fields, button, expected] of forms(company, webhook, clientId)) {
    await page.setViewportSize(LOOKS[0].viewport);
    const status = await send(page, path, fields, button);
    const form = `${path} ${button}`;
    assert.ok(status >= 400 && status < 500, `${form}: ${status}`);
    const wrong = await page.evaluate(wrongFields);
    if (expected !== null) {
      assert.deepEqual(wrong, expected, form);
      assert.equal(await page.getByRole('alert').count(), 1, form);
      await focusAtAlert(page);
    } else {
      assert.ok(wrong.length > 0 && !wrong.some((name) => name.startsWith('nobody')), `${form}: ${wrong}`);
    }
    for (const name of wrong) {
      const secret = ['old', 'password', 'repeated', 'answer'].includes(name);
      assert.equal(await page.locator(`main #${name}`).inputValue(), secret ? '' : fields[name], `${form}: ${name} stays as typed`);
    }
    for (const { viewport, colorScheme } of LOOKS) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      found.push(...(await findings(page)).map((finding) => `${form} ${colorScheme}: ${finding}`));
    }
  }
  assert.deepEqual(found, []);
}, async (installation) => {
  await installation.addUser({ email: 'member@example.com', role: 'member' });
});
