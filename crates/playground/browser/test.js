// Uses the page as somebody does: node test.js PAGE SCREENSHOTS [XML that deadlocks above a size]
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { gzipSync } = require("node:zlib");
const { chromium } = require("playwright-core");

const [page_path, pictures, given_xml] = process.argv.slice(2);
const examples = path.join(__dirname, "../examples");
const deadlock = given_xml ?? path.join(examples, "deadlock_of_large_calls.xml");
const READY_WITHIN_MS = 2000;
/// As a web server sends the page.
const MOST_SENT_BYTES = 600 << 10;

/// The example without its race: rank 0 waits as rank 1 does.
function withoutRace() {
  const text = fs.readFileSync(path.join(examples, "race.xml"), "utf8");
  const [first, second] = text.split('<gpu id="1"');
  const waits = first.replace(/(<tb id="1"[^]*?)depid="-1" deps="-1"/, '$1depid="0" deps="1"')
    .replace(/(<step s="1"[^>]*)hasdep="0"/, '$1hasdep="1"');
  assert.notStrictEqual(waits, first);
  return `${waits}<gpu id="1"${second}`;
}

async function answer(page, expected) {
  await page.locator("#verdict .answer", { hasText: expected }).waitFor({ timeout: 20000 });
  return page.locator("#verdict").innerText();
}

async function shot(page, name) {
  await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

async function race(page) {
  const good = withoutRace();
  await page.fill("#text", good);
  await answer(page, "proved: exchange");
  const start = good.indexOf('depid="0" deps="1"');
  await page.locator("#text").evaluate((area, [from, to]) => {
    area.focus();
    area.setSelectionRange(from, to);
  }, [start, start + 'depid="0" deps="1"'.length]);
  await page.keyboard.type('depid="-1" deps="-1"');
  const reported = await answer(page, "refused: race");
  assert.match(reported, /r0 tb1 s0 writes i\[0\] of r0 and r0 tb0 s0 reads it, in no order/);
  const lines = await page.locator("#problems button.place").allInnerTexts();
  const text = await page.inputValue("#text");
  const line = (element) => text.slice(0, text.indexOf(element)).split("\n").length;
  const [writes, reads] = [line('<step s="0" type="re"'), line('<step s="0" type="s"')];
  assert.ok(lines[0].startsWith(`${writes}:`), lines[0]);
  assert.ok(lines[1].startsWith(`${reads}:`), lines[1]);
  assert.strictEqual(await page.locator("#gutter .fault").innerText(), `● ${writes}`);
  assert.strictEqual(await page.locator("#gutter .related").innerText(), `● ${reads}`);
  assert.ok(await page.locator("#paint .fault-text").count() > 0);
  await shot(page, "race");
  await page.getByRole("button", { name: "Repair: let r0 tb1 s0 wait for step 1" }).click();
  await answer(page, "proved: exchange");
}

async function ring(page) {
  await page.selectOption("#examples", "program:allreduce/ring");
  await answer(page, "proved: ring, allreduce over 8 ranks");
  await page.fill("#ranks", "64");
  await answer(page, "proved: ring, allreduce over 64 ranks");
  await page.fill("#ranks", "");
  await answer(page, "allreduce over 8 ranks");
  for (const [tab, expected] of [["Chunks", ".picture svg"], ["Schedule", "pre.code"],
    ["Timeline", ".picture svg"], ["Estimates", "table"], ["Facts", "dl"]]) {
    await page.getByRole("tab", { name: tab, exact: true }).click();
    await page.locator(`[role=tabpanel]:visible ${expected}`).first().waitFor();
    await shot(page, tab.toLowerCase());
  }
  await page.keyboard.press("ArrowRight");
  assert.strictEqual(await page.locator("[role=tab][aria-selected=true]").innerText(), "Compare");
  await page.getByRole("button", { name: "Keep this program" }).click();
  await page.selectOption("#examples", "program:allreduce/two_shot");
  await answer(page, "proved: two_shot");
  await page.locator("#panel-compare th", { hasText: "two_shot" }).waitFor();
  assert.ok(await page.locator("#panel-compare td.best").count() >= 11);
  await shot(page, "compare");
}

async function machine(page) {
  await page.selectOption("#examples", "program:allreduce/hierarchical");
  await page.selectOption("#machine", "hgx-h100-8");
  await page.fill("#nodes", "2");
  await answer(page, "proved: hierarchical, allreduce over 16 ranks");
  await page.getByRole("tab", { name: "Timeline" }).click();
  await page.getByText("H100 or H200 with 8 GPUs, a NIC for each, 2 times").first().waitFor();
  await shot(page, "machine");
}

/// XML that the page writes is read by it, and proved for the runtime that runs it.
async function exported(page) {
  await page.selectOption("#examples", "program:allgather/ring");
  await answer(page, "proved: ring, allgather");
  const given = page.waitForEvent("download");
  await page.selectOption("#save", "msccl");
  const file = await (await given).path();
  const text = fs.readFileSync(file, "utf8");
  assert.match(text, /<algo [^]*coll="allgather"/);
  await page.fill("#text", text);
  await answer(page, "proved: ring, allgather over");
  await page.locator("#verdict li", { hasText: "on msccl Simple links of depth 2" }).waitFor();
}

async function standstill(page) {
  await page.setInputFiles("#file", deadlock);
  const reported = await answer(page, "refused: deadlock");
  assert.match(reported, /calls of up to \d+ MiB go well/);
  await page.getByRole("tab", { name: "Step through" }).click();
  const next = page.getByRole("button", { name: "one turn on" });
  const turns = Number(await page.locator("#turn").getAttribute("max"));
  assert.ok(turns > 0);
  for (let turn = 0; turn < turns; turn++) await next.click();
  await page.getByText("Nobody can go on.").waitFor();
  assert.ok(await page.locator("#ring .rank.stuck").count() >= 2);
  assert.ok(await page.locator("#ring .wait").count() >= 2);
  assert.ok(await page.locator("#blocks .stuck", { hasText: "waits for room" }).count() >= 2);
  await shot(page, "standstill");
}

async function mistake(page) {
  await page.selectOption("#examples", "broken:misspelt.msccl");
  await page.getByRole("button", { name: "Repair: replace `inptu` by `input`" }).click();
  await answer(page, "proved: one_shot");
}

async function share(page, browser) {
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.waitForFunction(() => location.hash.length > 20);
  const address = page.url();
  const phone = { width: 390, height: 844 };
  const other = await browser.newPage({ colorScheme: "dark", viewport: phone });
  await other.goto(address);
  await answer(other, "proved: one_shot");
  assert.strictEqual(await other.inputValue("#text"), await page.inputValue("#text"));
  const overflow = await other.evaluate(() =>
    document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} px wider than a phone`);
  await other.screenshot({ path: path.join(pictures, "phone.png"), fullPage: true });
  await other.close();
}

async function stopping(page) {
  await page.selectOption("#examples", "program:allreduce/ring");
  await answer(page, "allreduce over 8 ranks");
  await page.fill("#ranks", "1000");
  await page.locator("#working").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await answer(page, "stopped");
  await page.fill("#ranks", "4");
  await answer(page, "allreduce over 4 ranks");
}

/// What a program reads out: names, roles, contrast.
async function accessible(page) {
  let source;
  try {
    source = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  } catch {
    return console.log("SKIPPED: axe-core is not there, accessibility is not examined");
  }
  await page.addScriptTag({ content: source });
  const { violations } = await page.evaluate(() => window.axe.run());
  const described = violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
  assert.deepStrictEqual(described, []);
}

async function main() {
  fs.mkdirSync(pictures, { recursive: true });
  const sent = gzipSync(fs.readFileSync(page_path), { level: 9 }).length;
  console.log(`${sent} bytes are sent`);
  if (!process.env.ANY_SIZE) assert.ok(sent <= MOST_SENT_BYTES, `${sent} bytes are sent`);
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1400, height: 950 },
    colorScheme: "light" });
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("request", (request) => {
    if (!/^(file|blob|data):/.test(request.url())) faults.push(`network: ${request.url()}`);
  });
  await page.goto(pathToFileURL(path.resolve(page_path)).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready, null,
    { timeout: 30000 });
  const ready = Number(await page.evaluate(() => document.documentElement.dataset.ready));
  console.log(`ready after ${ready} ms`);
  if (!process.env.ANY_SPEED) assert.ok(ready <= READY_WITHIN_MS, `ready after ${ready} ms`);
  const steps = { race, ring, machine, exported, standstill, mistake, share, stopping, accessible };
  for (const [name, step] of Object.entries(steps)) {
    const began = Date.now();
    await step(page, browser).catch(async (error) => {
      await shot(page, "failed");
      throw error;
    });
    console.log(`${name}: ok, ${Date.now() - began} ms`);
  }
  assert.deepStrictEqual(faults, []);
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
