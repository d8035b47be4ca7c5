// The OFX statement as a program in JavaScript reads it: each name as it was written.

import assert from 'node:assert/strict';

import { parse } from 'ofx-js';

import { Api } from './harness/api.js';
import { order, tell } from './harness/purchases.js';
import { siteTest } from './harness/stage.js';

const NAMES = [
  'Café & <Söhne>',
  'Cafe\u0301 «Пекарня»',
  '山田太郎商店',
  'מאפיית לחם 24',
  'Farm 👩\u200d🌾',
  'Say "cheese", it\'s 5%',
  '&#65;&amp;]]>',
  '=1+1',
];

siteTest('a statement in OFX shows names as they were written', async (stage) => {
  const api = new Api(stage);
  const card = await order(stage, { amount: 5000 });
  for (const name of NAMES) {
    const merchant = { mcc: 5812, name };
    const { transaction_id: id } = await tell(stage, 'authorizations', { card_id: card.id, amount: 2, merchant });
    await tell(stage, 'presentments', { transaction_id: id });
  }
  const account = `/v1/accounts/${stage.installation.credentials.account_id}`;
  const { results: lines } = await api.get(`${account}/statement-lines?ordering=number&limit=1000`);
  const days = `start_date=${lines[0].date}&end_date=${lines.at(-1).date}`;
  const headers = { authorization: `Token ${stage.installation.credentials.access_token}` };
  const file = await fetch(`${stage.url}${account}/statement.ofx?${days}`, { headers });
  const { OFX } = await parse(await file.text());
  const rows = OFX.BANKMSGSRSV1.STMTTRNRS.STMTRS.BANKTRANLIST.STMTTRN;
  assert.deepEqual(rows.slice(1).map((row) => row.NAME), NAMES);
  assert.deepEqual(rows.map((row) => row.MEMO), lines.map((line) => line.description));
});
