// The redirect address of an app, on loopback: keeps what browsers bring.

import http from 'node:http';

const PATH = '/callback';

/** A running receiver. */
export class Receiver {
  #server;
  #arrived = [];
  #waiting = [];

  static async start() {
    const receiver = new Receiver();
    receiver.#server = http.createServer((request, response) => receiver.#take(request, response));
    await new Promise((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve));
    receiver.url = `http://127.0.0.1:${receiver.#server.address().port}${PATH}`;
    return receiver;
  }

  #take(request, response) {
    const { pathname, searchParams } = new URL(request.url, this.url);
    // Browsers ask for an icon, too.
    if (pathname !== PATH) {
      response.writeHead(204).end();
      return;
    }
    const brought = { query: Object.fromEntries(searchParams), headers: request.headers };
    const waiting = this.#waiting.shift();
    if (waiting) waiting(brought);
    else this.#arrived.push(brought);
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end('<!doctype html><html lang="en"><title>App</title><h1>Back in the app</h1>');
  }

  /** As `next`, once `page` stands there, too. */
  async nextAt(page) {
    const brought = await this.next();
    await page.getByRole('heading', { name: 'Back in the app' }).waitFor();
    return brought;
  }

  /** The next query that arrived or arrives. */
  async next() {
    return this.#arrived.shift() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Whether nothing has arrived that nobody asked for. */
  get isEmpty() {
    return this.#arrived.length === 0;
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
