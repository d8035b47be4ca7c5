// The redirect address of an app, on loopback: keeps what browsers bring.

import http from 'node:http';

/** A running receiver. */
export class Receiver {
  #server;
  #arrived = [];
  #waiting = [];

  static async start() {
    const receiver = new Receiver();
    receiver.#server = http.createServer((request, response) => receiver.#take(request, response));
    await new Promise((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve));
    receiver.url = `http://127.0.0.1:${receiver.#server.address().port}/callback`;
    return receiver;
  }

  #take(request, response) {
    const { searchParams } = new URL(request.url, this.url);
    const brought = { query: Object.fromEntries(searchParams), headers: request.headers };
    const waiting = this.#waiting.shift();
    if (waiting) waiting(brought);
    else this.#arrived.push(brought);
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end('<!doctype html><html lang="en"><title>App</title><h1>Back in the app</h1>');
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
