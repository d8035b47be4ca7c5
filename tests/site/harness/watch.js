// The rules for every page that a test meets, whatever the test is about: no complaint on the
// console, nothing loaded in vain, the security headers, a page that assistive technology can read.

const HEADERS = [
  ['x-content-type-options', /^nosniff$/],
  ['referrer-policy', /^(no-referrer|same-origin)$/],
  ['cache-control', /no-store/],
  ['content-security-policy', /default-src 'none'/],
  ['content-security-policy', /frame-ancestors 'none'/],
  ['content-security-policy', /base-uri 'none'/],
  ['content-security-policy', /form-action /],
];

/** Watches one page for a whole test and collects what is wrong. */
export class Watch {
  #faults = [];
  #documents = new Set();
  #site;

  constructor(page, site) {
    this.#site = site;
    page.on('console', (message) => this.#console(message));
    page.on('pageerror', (error) => this.#faults.push(`script error: ${error.message}`));
    page.on('requestfailed', (request) => {
      // A browser that goes elsewhere gives up what it was loading.
      const reason = request.failure()?.errorText;
      if (reason !== 'net::ERR_ABORTED') this.#faults.push(`${request.url()}: ${reason}`);
    });
    page.on('response', (response) => this.#response(response));
  }

  #console(message) {
    if (!['error', 'warning', 'assert'].includes(message.type())) return;
    const url = message.location().url;
    // Chromium reports a page of an error status there, too; tests ask for such pages on purpose.
    const isPageItself = /^Failed to load resource: .* status of 4\d\d/.test(message.text());
    if (isPageItself && this.#documents.has(url)) return;
    this.#faults.push(`console ${message.type()}: ${message.text()} (${url})`);
  }

  #response(response) {
    if (!response.url().startsWith(this.#site)) return;
    if (response.status() >= 500) this.#faults.push(`${response.url()}: ${response.status()}`);
    if (response.request().resourceType() !== 'document') return;
    this.#documents.add(response.url());
    const headers = response.headers();
    for (const [name, expected] of HEADERS) {
      const value = headers[name] ?? '';
      if (!expected.test(value)) this.#faults.push(`${response.url()}: ${name}: ${value}`);
    }
    if (/unsafe-|\*/.test(headers['content-security-policy'] ?? '')) {
      this.#faults.push(`${response.url()}: ${headers['content-security-policy']}`);
    }
  }

  /** Notes what is wrong with the page as it stands. */
  async inspect(page) {
    const faults = await page.evaluate(pageFaults);
    this.#faults.push(...faults.map((fault) => `${page.url()}: ${fault}`));
  }

  /** Throws where anything was wrong. */
  assertClean() {
    if (this.#faults.length > 0) throw new Error(`pages are not clean:\n${this.#faults.join('\n')}`);
  }
}

/** Runs in the page. */
function pageFaults() {
  const faults = [];
  const say = (isRight, fault) => isRight || faults.push(fault);
  const all = (selector) => [...document.querySelectorAll(selector)];
  say(document.documentElement.lang !== '', 'no language');
  say(document.title.trim() !== '', 'no title');
  say(all('h1').length === 1, `${all('h1').length} headings of level 1`);
  say(all('main').length === 1, `${all('main').length} main parts`);
  for (const field of all('input:not([type=hidden], [aria-hidden=true]), select, textarea')) {
    say(field.labels.length > 0, `no label for field \`${field.name}\``);
  }
  for (const control of all('button, a')) {
    say(control.textContent.trim() !== '', `a ${control.localName} says nothing`);
  }
  // A plot draws itself by script, which the policy allows; nothing that came with the page is inline.
  const inline = all('[style]:not(.plot *), script:not([src^="/assets/"]), style');
  for (const element of inline) faults.push(`inline ${element.localName}`);
  const ids = all('[id]').map((element) => element.id);
  say(new Set(ids).size === ids.length, `ids are not unique: ${ids}`);
  const { scrollWidth, clientWidth } = document.documentElement;
  say(scrollWidth <= clientWidth, `wider than the window: ${scrollWidth} > ${clientWidth}`);
  return faults;
}
