// An app asks for access: what people read, what they answer, and what the app gets.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

import { authorizeUrl, enterPassword, getApi, postToken, registerApp, signIn } from './harness/people.js';
import { siteTest } from './harness/stage.js';

const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
const NOT_ALLOWED = 'The member may not authorize this request';
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url');

/** An administrator who is signed in, and an app of theirs whose redirect URL is the receiver. */
async function withApp(stage, options = {}) {
  const page = await stage.newPage();
  await signIn(page, stage.installation.administrator);
  const app = await registerApp(page, { redirectUrls: [stage.receiver.url], ...options });
  return { page, app };
}

siteTest('allowing leads to the app with a code, and the code to a token', async (stage) => {
  const { page, app } = await withApp(stage);
  const { url: redirectUri } = stage.receiver;
  const asked = { client_id: app.clientId, redirect_uri: redirectUri, state: 'a b&c="<é>' };
  const pkce = { code_challenge: CHALLENGE, code_challenge_method: 'S256' };
  await page.goto(authorizeUrl(stage.url, { ...asked, scope: 'accountant', ...pkce }));
  await page.getByRole('heading', { name: 'Allow Books to access your account?' }).waitFor();
  await page.getByText('Keep the books').waitFor();
  await stage.shot(page, 'consent');
  await page.reload();
  await page.getByRole('button', { name: 'Allow' }).click();
  const { query, headers } = await stage.receiver.nextAt(page);
  assert.equal(query.state, asked.state);
  assert.equal(query.error, undefined);
  assert.equal(headers.referer, undefined, 'the app does not learn where people come from');
  assert.ok(stage.receiver.isEmpty, 'one answer gives one code');

  const exchange = { grant_type: 'authorization_code', client_id: app.clientId, client_secret: app.clientSecret };
  const code = { code: query.code, redirect_uri: redirectUri, code_verifier: VERIFIER };
  const given = await postToken(stage.url, { ...exchange, ...code });
  assert.equal(given.status, 201, JSON.stringify(given.body));
  assert.deepEqual(given.body.scope, ['accountant']);
  const company = await getApi(stage.url, '/v1/company', given.body.access_token);
  assert.equal(company.status, 200);
  assert.equal(company.body.id, stage.installation.credentials.company_id);

  const replayed = await postToken(stage.url, { ...exchange, ...code });
  assert.equal(replayed.status, 400);
  const after = await getApi(stage.url, '/v1/company', given.body.access_token);
  assert.equal(after.status, 401, 'a replayed code takes back what it gave');
});

siteTest('declining leads to the app with access_denied', async (stage) => {
  const { page, app } = await withApp(stage);
  await page.goto(authorizeUrl(stage.url, { client_id: app.clientId, state: '1' }));
  await page.getByText('Change anything').waitFor();
  await stage.shot(page, 'consent-read-only');
  await page.getByRole('button', { name: 'Decline' }).click();
  const { query } = await stage.receiver.nextAt(page);
  assert.equal(query.error, 'access_denied');
  assert.ok(query.error_description.length > 0);
  assert.equal(query.state, '1');
  assert.equal(query.code, undefined);
});

siteTest('asking makes nothing, and one answer makes one code', async (stage) => {
  const { page, app } = await withApp(stage);
  const target = authorizeUrl(stage.url, { client_id: app.clientId });
  const codesMade = async () => {
    await page.goto('/audit?action=authorization_code.created');
    return page.locator('tbody tr').count();
  };
  const prefetched = await page.request.get(target, { headers: { 'sec-purpose': 'prefetch;prerender' } });
  assert.equal(prefetched.status(), 200);
  await page.goto(target);
  await page.reload();
  assert.equal(await codesMade(), 0);
  await page.goto(target);
  await page.getByRole('button', { name: 'Allow' }).click();
  await stage.receiver.nextAt(page);
  await page.goBack();
  await page.goForward();
  assert.equal(await codesMade(), 1);
});

siteTest('the name of an app is text wherever it stands', async (stage) => {
  const name = '"><img src=x onerror=alert(1)><b>';
  const { page, app } = await withApp(stage, { name });
  await page.goto(`/apps/${app.clientId}`);
  await page.getByRole('button', { name: 'Create token' }).click();
  const places = ['/apps', `/apps/${app.clientId}`, '/tokens', authorizeUrl(stage.url, { client_id: app.clientId })];
  for (const place of places) {
    await page.goto(place);
    await page.getByText(name).first().waitFor();
    assert.equal(await page.locator('main img, main b').count(), 0, place);
  }
  await page.getByRole('button', { name: 'Decline' }).click();
  await stage.receiver.nextAt(page);
});

siteTest('sign-in comes first and leads back', async (stage) => {
  const { page: ownPage, app } = await withApp(stage);
  await ownPage.context().close();
  const page = await stage.newPage();
  await page.goto(authorizeUrl(stage.url, { client_id: app.clientId, state: 'x' }));
  assert.equal(new URL(page.url()).pathname, '/login');
  await enterPassword(page, stage.installation.administrator);
  await page.getByRole('heading', { name: 'Allow Books to access your account?' }).waitFor();
  await page.getByRole('button', { name: 'Allow' }).click();
  assert.equal((await stage.receiver.nextAt(page)).query.state, 'x');
});

siteTest('a member of several companies chooses one', async (stage) => {
  const { page, app } = await withApp(stage);
  await page.goto(authorizeUrl(stage.url, { client_id: app.clientId }));
  await page.getByRole('radio', { name: 'Second Company' }).check();
  await stage.shot(page, 'consent-companies');
  await page.getByRole('button', { name: 'Allow' }).click();
  const { query } = await stage.receiver.nextAt(page);
  const exchange = { grant_type: 'authorization_code', client_id: app.clientId, client_secret: app.clientSecret };
  const given = await postToken(stage.url, { ...exchange, code: query.code });
  const company = await getApi(stage.url, '/v1/company', given.body.access_token);
  assert.equal(company.body.id, stage.prepared.second);
}, async (installation) => {
  const second = await installation.addCompany('Second Company');
  const { email } = installation.administrator;
  await installation.addMembership({ email, role: 'accountant', company: second });
  return { second };
});

siteTest('what cannot be sent to an approved address is a page', async (stage) => {
  const { page, app } = await withApp(stage);
  const { url } = stage.receiver;
  const port = new URL(url).port;
  const rows = [
    { client_id: '01890000-0000-7000-8000-000000000000' },
    { client_id: '"><script>alert(1)</script>' },
    { client_id: app.clientId, redirect_uri: `${url}/` },
    { client_id: app.clientId, redirect_uri: `${url}#` },
    { client_id: app.clientId, redirect_uri: `${url}?a=b` },
    { client_id: app.clientId, redirect_uri: url.toUpperCase() },
    { client_id: app.clientId, redirect_uri: url.replace('127.0.0.1', 'localhost') },
    { client_id: app.clientId, redirect_uri: url.replace(port, '1') },
    { client_id: app.clientId, redirect_uri: url.replace('//', '//user@') },
    { client_id: app.clientId, redirect_uri: url.replace('/callback', '/%63allback') },
    { client_id: app.clientId, redirect_uri: 'javascript:alert(1)' },
  ];
  for (const [index, asked] of rows.entries()) {
    const answer = await page.goto(authorizeUrl(stage.url, asked));
    assert.equal(answer.status(), 400, JSON.stringify(asked));
    assert.ok(page.url().startsWith(stage.url), page.url());
    if (index < 3) await stage.shot(page, `consent-error-${index}`);
  }
  assert.ok(stage.receiver.isEmpty);
});

siteTest('what an app asks wrongly is told to the app', async (stage) => {
  const { page, app } = await withApp(stage);
  const rows = [
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ scope: 'everything' }, 'invalid_scope'],
    [{ code_challenge: CHALLENGE, code_challenge_method: 'plain' }, 'invalid_request'],
  ];
  for (const [asked, error] of rows) {
    await page.goto(authorizeUrl(stage.url, { client_id: app.clientId, state: 's', ...asked }));
    const { query } = await stage.receiver.nextAt(page);
    assert.equal(query.error, error);
    assert.equal(query.state, 's');
  }
});

siteTest('whoever may not authorize is sent back with access_denied', async (stage) => {
  const { page: ownPage, app } = await withApp(stage);
  await ownPage.context().close();
  for (const [person, description] of stage.prepared) {
    const page = await stage.newPage();
    await page.goto(authorizeUrl(stage.url, { client_id: app.clientId, state: 's' }));
    await enterPassword(page, person);
    const { query } = await stage.receiver.nextAt(page);
    const { iss, ...told } = query;
    assert.match(iss, /^http:\/\/127\.0\.0\.1:/);
    assert.deepEqual(told, { error: 'access_denied', error_description: description, state: 's' });
    await page.context().close();
  }
}, async (installation) => {
  const add = (name, standing) => installation.addUser({ email: `${name}@example.com`, ...standing });
  const waiting = await installation.addCompany('Waiting Company');
  const rows = [
    [await add('reviewer', { role: 'reviewer' }), NOT_ALLOWED],
    [await add('member', { role: 'member' }), NOT_ALLOWED],
    [await add('developer', { role: 'member', isDeveloper: true }), NOT_ALLOWED],
    [await add('nobody', {}), 'No account'],
    [await add('waiting', { role: 'administrator', company: waiting }), 'Pending approval'],
  ];
  await installation.approve(waiting, false);
  return rows;
});

siteTest('an administrator gives an approved app what an accountant cannot', async (stage) => {
  const { app, accountant } = stage.prepared;
  const asked = { client_id: app.clientId, scope: 'admin scim,iam' };
  const page = await stage.newPage();
  await page.goto(authorizeUrl(stage.url, asked));
  await enterPassword(page, accountant);
  assert.equal((await stage.receiver.nextAt(page)).query.error, 'access_denied');
  await page.goto(authorizeUrl(stage.url, { client_id: app.clientId, scope: 'accountant' }));
  await page.getByRole('button', { name: 'Allow' }).click();
  assert.ok((await stage.receiver.nextAt(page)).query.code, 'what accountants have they may give');

  const other = await stage.newPage();
  await other.goto(authorizeUrl(stage.url, asked));
  await enterPassword(other, stage.installation.administrator);
  await other.getByText('Act as an administrator').waitFor();
  await stage.shot(other, 'consent-admin');
  await other.getByRole('button', { name: 'Allow' }).click();
  const { query } = await stage.receiver.nextAt(other);
  const client = { client_id: app.clientId, client_secret: app.clientSecret };
  const given = await postToken(stage.url, { grant_type: 'authorization_code', code: query.code, ...client });
  assert.deepEqual(given.body.scope, ['admin', 'scim', 'iam']);
}, async (installation, receiver) => ({
  app: await installation.addApp({ name: 'Ledgers', redirectUrl: receiver.url, scopes: ['admin', 'scim', 'iam'] }),
  accountant: await installation.addUser({ email: 'acc@example.com', role: 'accountant' }),
}));

siteTest('a page of somebody else cannot answer', async (stage) => {
  const { page, app } = await withApp(stage);
  const target = authorizeUrl(stage.url, { client_id: app.clientId });
  const cookies = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`);
  const send = (headers, csrf) => fetch(target, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie: cookies.join('; '), ...headers },
    body: new URLSearchParams({ decision: 'allow', company: stage.installation.credentials.company_id, csrf }),
  });
  await page.goto(target);
  const csrf = await page.locator('main input[name=csrf]').getAttribute('value');
  assert.equal((await send({}, 'guessed')).status, 403);
  assert.equal((await send({ origin: 'https://evil.example' }, csrf)).status, 403);
  assert.equal((await send({ 'sec-fetch-site': 'cross-site' }, csrf)).status, 403);
  assert.ok(stage.receiver.isEmpty);
  const honest = await send({}, csrf);
  assert.equal(honest.status, 303);
  assert.match(honest.headers.get('location'), /[?&]code=/);
});
