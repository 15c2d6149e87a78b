// Looks at the page of a report as somebody does: node look.js PAGE PICTURES. The run has a slow
// thread block 0 on rank 1, and a prediction.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");

const [page_path, pictures] = process.argv.slice(2);
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const WIDE = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };

async function open(browser, viewport, colorScheme) {
  const page = await browser.newPage({ viewport, colorScheme });
  page.on("pageerror", (error) => assert.fail(error));
  page.on("request", (request) => {
    assert.strictEqual(request.url(), pathToFileURL(page_path).href, "the page needs nothing else");
  });
  await page.goto(pathToFileURL(page_path).href);
  return page;
}

/// Whoever cannot see colours well, or uses no mouse, can read the page.
async function readable(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  const faults = found.violations.map(
    ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join("; ")}`);
  assert.deepStrictEqual(faults, [], name);
}

async function shot(page, name) {
  await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

/// What is drawn, and what is marked.
async function drawn(page) {
  const seen = await page.locator(".chart").first().evaluate((chart) => {
    const box = (of) => of.getBoundingClientRect();
    const spans = [...chart.querySelectorAll("rect:not(.band)")];
    const marks = [".slowest", ".deviating"].map((name) => {
      const marked = [...chart.querySelectorAll(name)];
      const [first] = marked;
      return first && {
        count: marked.length, width: box(first).width, title: first.textContent,
        stroke: getComputedStyle(first).stroke, strokeWidth: getComputedStyle(first).strokeWidth,
      };
    });
    return {
      spans: spans.length,
      drawn: spans.filter((of) => box(of).width > 0 && box(of).height > 0).length,
      kinds: [...new Set(spans.map((of) => getComputedStyle(of).fill))].length,
      path: box(chart.querySelector(".path")).width, chart: box(chart).width, marks,
    };
  });
  const [slowest, deviating] = seen.marks;
  assert.ok(seen.spans > 100 && seen.drawn === seen.spans, JSON.stringify(seen));
  assert.ok(seen.kinds >= 4, JSON.stringify(seen));
  assert.ok(seen.path > seen.chart / 2, JSON.stringify(seen));
  assert.strictEqual(slowest.count, 1);
  assert.match(slowest.title, /^rank 1, .*, line (19|22)\b/);
  assert.ok(slowest.width > 5 && slowest.strokeWidth === "2.5px", JSON.stringify(slowest));
  assert.match(deviating.title, /^rank 1, /);
  assert.notStrictEqual(slowest.stroke, deviating.stroke);
}

/// A wider picture has no wider letters, and names of rows stay.
async function zoom(page) {
  const picture = page.locator(".picture").first();
  const letters = () => picture.locator(".chart text").first().evaluate(
    (text) => text.getBoundingClientRect().width);
  const width = () => picture.locator(".chart").evaluate(
    (chart) => chart.getBoundingClientRect().width);
  const [letters_before, width_before] = [await letters(), await width()];
  await picture.getByRole("button", { name: "wider" }).click();
  await picture.getByRole("button", { name: "wider" }).click();
  assert.ok(Math.abs(await width() / width_before - 2.25) < 0.01, await width());
  assert.ok(Math.abs(await letters() - letters_before) < 1);
  assert.ok(await picture.locator(".labels").isVisible());
  await picture.getByRole("button", { name: "all" }).click();
  assert.ok(Math.abs(await width() - width_before) < 1, await width());
  await picture.locator(".slowest").click();
  assert.match(await picture.locator(".detail").innerText(), /^rank 1, /);
}

async function main() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox"],
  });
  const light = await open(browser, WIDE, "light");
  await drawn(light);
  await readable(light, "light");
  await shot(light, "light");
  await zoom(light);
  const dark = await open(browser, WIDE, "dark");
  await drawn(dark);
  await readable(dark, "dark");
  await shot(dark, "dark");
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notStrictEqual(await ground(light), await ground(dark));
  const phone = await open(browser, PHONE, "light");
  await readable(phone, "phone");
  await shot(phone, "phone");
  await phone.locator(".picture").first().scrollIntoViewIfNeeded();
  await phone.locator(".picture").first().evaluate((of) => of.scrollIntoView());
  await shot(phone, "phone-picture");
  const widths = await phone.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(widths[0] <= widths[1], `nothing but pictures and tables scrolls: ${widths}`);
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
