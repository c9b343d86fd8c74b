// A client of browsers that does what it is told: one order a line on standard input, one answer a line on standard
// output, {"ok": VALUE} or {"error": WORDS}. It ends with its standard input.
//
//   node client.mjs playwright-core | playwright-core-previous | puppeteer-core
import { createInterface } from 'node:readline';

const library = await import(process.argv[2]);
const { chromium, puppeteer = library.default } = library;

// Every way to connect, as a user would write it.
const ways = {
  playwright: url => chromium.connect(url),
  playwrightOverCdp: url => chromium.connectOverCDP(url),
  puppeteer: url => puppeteer.connect({ browserWSEndpoint: url }),
  puppeteerByUrl: url => puppeteer.connect({ browserURL: url }),
  puppeteerBidi: url => puppeteer.connect({ browserWSEndpoint: url, protocol: 'webDriverBiDi' }),
};

let browser, page, gone;

// What Playwright finds in a browser is in its default context; what it makes over its own protocol is in new ones.
const contexts = () => (browser.contexts ? browser.contexts() : []);
const pages = async () => (browser.pages ? browser.pages() : contexts().flatMap(context => context.pages()));
const newPage = () => (contexts()[0] ?? browser).newPage();

const orders = {
  async connect({ way, url }) {
    browser = await ways[way](url);
    gone = new Promise(resolve => browser.once('disconnected', resolve));
    return browser.version();
  },
  // How long it takes from here to a page that is loaded, in milliseconds.
  async open({ url }) {
    const begun = performance.now();
    page = await newPage();
    await page.goto(url);
    return Math.round(performance.now() - begun);
  },
  // Finds the page at this address among those that are open.
  async find({ url }) {
    page = (await pages()).find(one => one.url() === url);
    if (!page) throw new Error(`no page is at ${url}`);
  },
  click: ({ selector }) => page.click(selector),
  type: ({ selector, text }) => page.type(selector, text),
  text: ({ selector }) => page.$eval(selector, element => element.textContent),
  value: ({ selector }) => page.$eval(selector, element => element.value),
  evaluate: ({ script }) => page.evaluate(script),
  screenshot: async () => Buffer.from(await page.screenshot()).toString('base64'),
  // Leaves the browser as it is.
  disconnect: () => (browser.disconnect ?? browser.close).call(browser),
  // Completes when the other side has ended the connection.
  gone: () => gone.then(() => undefined),
};

// No order takes that long, on whatever machine.
const patience = 80_000;
const late = order =>
  new Promise((_, fail) => setTimeout(fail, patience, new Error(`${order} takes longer than ${patience} ms`)).unref());

async function answer({ order, ...its }) {
  try {
    return { ok: (await Promise.race([orders[order](its), late(order)])) ?? null };
  } catch (error) {
    return { error: String(error?.message ?? error) };
  }
}

process.stdout.write('{"ok":"ready"}\n');
let last = Promise.resolve();
const lines = createInterface({ input: process.stdin });
lines.on('line', line => {
  last = last.then(async () => process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + '\n'));
});
lines.on('close', () => process.exit(0));
