// Live overviews that are open: streams as the script of the page reads them.

import http from 'node:http';

import { Visitor } from './visitor.mjs';

/** So many streams, each read as it comes. */
export class Followers {
  #streams = [];
  #messages = 0;

  /** Opens them, in the names of all viewers in turn. */
  static async open(history, count) {
    const followers = new Followers();
    const visitors = [];
    for (const viewer of history.viewers) visitors.push(await Visitor.signIn(history.url, viewer));
    const agent = new http.Agent({ maxSockets: Infinity });
    for (let number = 0; number < count; number += 1) {
      const stream = await visitors[number % visitors.length].open('/overview/live', agent);
      if (stream.statusCode !== 200) throw new Error(`a live overview answers ${stream.statusCode}`);
      // A message begins a line with `data:`; comments keep the connection only.
      stream.on('data', (chunk) => { followers.#messages += chunk.toString('latin1').split('data:').length - 1; });
      stream.on('error', () => {});
      followers.#streams.push(stream);
    }
    return followers;
  }

  /** Ends them and says what they were told. */
  close() {
    for (const stream of this.#streams) stream.destroy();
    return { opened: this.#streams.length, told: this.#messages };
  }
}
