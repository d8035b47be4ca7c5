// Mail that a switch wrote into its data directory.

import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

/** Every mail, in the order of the files' names: its headers, plain text and HTML. */
export async function mails(installation) {
  const directory = path.join(installation.data, 'outbox');
  const names = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith('.eml'));
  return Promise.all(names.sort().map(async (name) => parseMail(await readFile(path.join(directory, name), 'latin1'))));
}

function parseMail(raw) {
  const { headers, body } = parsePart(raw);
  const boundary = headers['content-type'].match(/boundary="([^"]+)"/)[1];
  const parts = body.split(`--${boundary}`).slice(1, -1).map((part) => parsePart(part.trimStart()));
  const [text, html] = ['text/plain', 'text/html'].map((kind) => {
    const part = parts.find(({ headers: own }) => own['content-type'].startsWith(kind));
    return decode(part.body, part.headers['content-transfer-encoding']);
  });
  return { headers, text, html };
}

function parsePart(raw) {
  const [head, ...rest] = raw.split('\r\n\r\n');
  const headers = Object.fromEntries(
    head.replace(/\r\n[ \t]+/g, ' ').split('\r\n').map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  return { headers, body: rest.join('\r\n\r\n') };
}

function decode(body, encoding = '7bit') {
  switch (encoding.toLowerCase()) {
    case 'base64':
      return Buffer.from(body, 'base64').toString('utf8');
    case 'quoted-printable': {
      const bytes = body.replace(/=\r\n/g, '').replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
      return Buffer.from(bytes, 'latin1').toString('utf8');
    }
    default:
      return Buffer.from(body, 'latin1').toString('utf8');
  }
}

/** The link to choose a password in the last mail to somebody; mail is written after the answer. */
export async function linkSent(stage, email) {
  for (;;) {
    const sent = (await mails(stage.installation)).filter(({ headers }) => headers.to.includes(email));
    const link = sent.at(-1)?.text.match(/https?:\/\/\S+\/password\/set\/\S+/)?.[0];
    if (link) return link;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
