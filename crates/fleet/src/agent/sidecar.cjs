// Runs one Playwright server on a browser until standard input ends.
//
// The first line of standard input is {package, executable, args, sandbox, path}. When the server is
// ready, the script prints one line, {endpoint, pid, version}. It answers every further line with
// {well: LINE} once the browser has answered through the server. It exits when standard input ends
// or the browser dies.
'use strict';

const lines = require('node:readline').createInterface({ input: process.stdin });
const print = message => process.stdout.write(JSON.stringify(message) + '\n');
const fail = error => {
  console.error(error && error.message ? error.message : String(error));
  process.exit(1);
};

async function serve({ package: from, executable, args, sandbox, path }) {
  const { chromium } = require(from);
  const server = await chromium.launchServer({
    executablePath: executable,
    args,
    chromiumSandbox: sandbox,
    host: '127.0.0.1',
    port: 0,
    wsPath: path,
    // The agent handles signals.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
  server.on('close', () => fail('the browser has ended'));
  // An ordinary client, so that an answer proves that server, protocol and browser work.
  const client = await chromium.connect(server.wsEndpoint());
  const browser = await client.newBrowserCDPSession();
  print({ endpoint: server.wsEndpoint(), pid: server.process().pid, version: client.version() });
  return line => browser.send('Browser.getVersion').then(() => print({ well: line }), fail);
}

let server = null;
lines.on('line', line => {
  server = server ? server.then(probe => (probe(line), probe)) : serve(JSON.parse(line));
  server.catch(fail);
});
lines.on('close', () => process.exit(0));
