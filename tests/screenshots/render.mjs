// Takes pictures with a real browser, and tells on stdout what is on them.
//
// Usage: node render.mjs < job.json, where the job is
//   {"folder": where the pictures go, "prometheus": its URL, "from": and "to": in Unix seconds,
//    "dashboards": [{"name", "path", "variables"}],
//    "pages": [{"name", "url", "device": "desk" or "phone", "scheme": "light" or "dark"}]}

import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { basename, dirname, extname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
import { chromium } from 'playwright-core';

import { describePage, describePanels } from './page-report.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const GRAFANA = dirname(createRequire(import.meta.url).resolve('@grafana/ui/package.json'));
const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
};
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const DEVICES = {
  desk: { viewport: { width: 1200, height: 800 } },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};
const WIDE = { viewport: { width: 1500, height: 900 } };

async function bundle() {
  const { outputFiles } = await build({
    entryPoints: [join(HERE, 'src/main.jsx')],
    bundle: true,
    define: { 'process.env.NODE_ENV': '"production"' },
    format: 'esm',
    jsx: 'automatic',
    loader: { '.ttf': 'empty', '.woff': 'empty', '.woff2': 'dataurl' },
    logLevel: 'error',
    minify: true,
    outdir: '/',
    write: false,
  });
  return Object.fromEntries(outputFiles.map(({ path, contents }) => [path, contents]));
}

// Serves the program on a free port of the loopback, with the icons where Grafana has them.
async function serve(files) {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const [, icon] = /^\/public\/build\/(img\/.+)$/.exec(pathname) ?? [];
    try {
      const body = files[pathname] ?? (await readFile(join(GRAFANA, 'dist/public', icon)));
      response.setHeader('Content-Type', TYPES[extname(pathname)]);
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return server;
}

// Takes the whole page; Playwright itself knows no format as small as this.
async function picture(page, path) {
  const session = await page.context().newCDPSession(page);
  const { cssContentSize: clip } = await session.send('Page.getLayoutMetrics');
  const { data } = await session.send('Page.captureScreenshot', {
    format: 'webp',
    quality: 85,
    captureBeyondViewport: true,
    clip: { ...clip, scale: 1 },
  });
  await writeFile(path, Buffer.from(data, 'base64'));
}

async function pictureDashboard(browser, server, job, { name, path, variables }) {
  const context = await browser.newContext(WIDE);
  const page = await context.newPage();
  const failed = new Promise((_, fail) => page.once('pageerror', fail));
  const { folder, prometheus, from, to } = job;
  const dashboard = `/${basename(path)}`;
  const query = new URLSearchParams({ dashboard, prometheus, from, to, ...variables });
  await page.goto(`http://127.0.0.1:${server.address().port}/index.html?${query}`);
  await Promise.race([page.waitForFunction(() => window.isDrawn), failed]);
  await page.waitForLoadState('networkidle');
  await picture(page, join(folder, `${name}.webp`));
  const panels = await page.evaluate(describePanels);
  await context.close();
  return { name, panels };
}

async function picturePage(browser, { folder }, { name, url, device, scheme }) {
  const context = await browser.newContext({
    ...DEVICES[device],
    colorScheme: scheme,
    javaScriptEnabled: false,
  });
  const page = await context.newPage();
  const messages = [];
  page.on('console', (message) => messages.push(message.text()));
  await page.goto(url);
  await picture(page, join(folder, `${name}.webp`));
  const report = { name, scheme, messages, ...(await page.evaluate(describePage)) };
  await context.close();
  return report;
}

async function main() {
  const job = JSON.parse(await text(process.stdin));
  const files = await bundle();
  files['/index.html'] = await readFile(join(HERE, 'src/index.html'));
  for (const { path } of job.dashboards) {
    files[`/${basename(path)}`] = await readFile(path);
  }
  const server = await serve(files);
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });
  try {
    const dashboards = [];
    for (const dashboard of job.dashboards) {
      dashboards.push(await pictureDashboard(browser, server, job, dashboard));
    }
    const pages = [];
    for (const page of job.pages) {
      pages.push(await picturePage(browser, job, page));
    }
    console.log(JSON.stringify({ dashboards, pages }));
  } finally {
    await browser.close();
    server.close();
  }
}

await main();
