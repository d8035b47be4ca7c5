// One message by npm `iso_8583` to a door: HOST PORT JSON; prints the answer as JSON.

const net = require("node:net");
const Iso8583 = require("iso_8583");

const [host, port, message] = process.argv.slice(2);
const frame = new Iso8583(JSON.parse(message)).getBufferMessage();
if (frame.error) {
  throw new Error(JSON.stringify(frame));
}
const stream = net.connect(Number(port), host, () => stream.write(frame));
let received = Buffer.alloc(0);
stream.on("data", (part) => {
  received = Buffer.concat([received, part]);
  if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) {
    return;
  }
  console.log(JSON.stringify(new Iso8583().getIsoJSON(received)));
  stream.end();
});
