// The requests of programs to a switch, for tests that need objects before a page shows them.

/** The API and the network's door of one switch, as its first administrator and its network see them. */
export class Api {
  #url;
  #credentials;

  constructor(stage) {
    this.#url = stage.url;
    this.#credentials = stage.installation.credentials;
  }

  /** What `/v1` answers to `method`; anything but success is an error. */
  async ask(method, path, body, { multipart } = {}) {
    return this.#send(method, path, `Token ${this.#credentials.access_token}`, multipart ?? body);
  }

  get(path) {
    return this.ask('GET', path);
  }

  post(path, body) {
    return this.ask('POST', path, body);
  }

  put(path, body) {
    return this.ask('PUT', path, body);
  }

  delete(path) {
    return this.ask('DELETE', path);
  }

  /** Sends what merchants' banks send. */
  network(path, body) {
    return this.#send('POST', `/network/v1${path}`, `Bearer ${this.#credentials.network_key}`, body);
  }

  async #send(method, path, authorization, body) {
    const headers = { authorization };
    const isForm = body instanceof FormData;
    if (body !== undefined && !isForm) headers['content-type'] = 'application/json';
    const sent = body === undefined || isForm ? body : JSON.stringify(body);
    const response = await fetch(`${this.#url}${path}`, { method, headers, body: sent });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answers ${response.status}: ${text}`);
    return text === '' ? null : JSON.parse(text);
  }
}

/** Makes a virtual card; what is not given is that of an ordinary one. */
export function makeCard(api, { allowance = {}, ...card } = {}) {
  const body = { description: 'Team lunch', is_virtual: true, ...card };
  return api.post('/v1/cards', { ...body, allowance: { amount: 500, ...allowance } });
}

/** Buys something with a card and returns what the network is told. */
export function buy(api, card, amount, { name = 'Harbor Grocery', mcc = 5411 } = {}) {
  const place = { city: 'Austin', state: 'TX', country: 'US', zip: '78701' };
  return api.network('/authorizations', { card_id: card.id, amount, merchant: { mid: '445566', mcc, name, ...place } });
}
