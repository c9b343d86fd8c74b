// Runs one Playwright server on a browser, for as long as somebody holds its standard input open.
//
// The first line of standard input is {package, executable, args, sandbox, path}. It prints one line when the server is
// ready, {endpoint, pid, version}, and answers every further line with {well: LINE} once the browser has answered, by
// way of the server. When standard input ends or the browser dies, it ends.
'use strict';

const lines = require('node:readline').createInterface({ input: process.stdin });
const say = message => process.stdout.write(JSON.stringify(message) + '\n');
const die = error => {
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
    // Signals are for whoever keeps this process.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
  server.on('close', () => die('the browser has ended'));
  // A client like any other, so that an answer says that everything works: server, protocol and browser.
  const client = await chromium.connect(server.wsEndpoint());
  const browser = await client.newBrowserCDPSession();
  say({ endpoint: server.wsEndpoint(), pid: server.process().pid, version: client.version() });
  return line => browser.send('Browser.getVersion').then(() => say({ well: line }), die);
}

let answer = null;
lines.on('line', line => {
  answer = answer ? answer.then(ask => (ask(line), ask)) : serve(JSON.parse(line));
  answer.catch(die);
});
lines.on('close', () => process.exit(0));
