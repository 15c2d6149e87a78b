//! The page of a report draws in a browser, and marks the slowest step.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use msccl_testkit::recordings::{ImaginedRun, PlantedFault};
use msccl_trace::report::{Expectations, html, report};

use crate::faults::joined;
use crate::plans::all_reduce;

/// A browser without a window, if the machine has one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "headless_shell"];
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH")?).collect();
    let programs = folders.iter().flat_map(|folder| names.map(|name| folder.join(name)));
    programs.into_iter().find(|program| program.is_file())
}

/// What the browser sees: how many spans are drawn, where the slowest one is, whether anything came
/// from elsewhere.
const LOOK: &str = "<script>
const box = (of) => of.getBoundingClientRect();
const spans = [...document.querySelectorAll('svg.timeline rect')];
const drawn = spans.filter((of) => box(of).width > 0 && box(of).height > 0).length;
const marked = document.querySelector('rect.slowest');
const path = document.querySelector('polyline.path');
document.body.dataset.seen = JSON.stringify({
  drawn, spans: spans.length,
  marked: marked && [box(marked).width, getComputedStyle(marked).strokeWidth],
  title: marked && marked.textContent,
  path: box(path).width,
  loaded: performance.getEntriesByType('resource').length,
  page: getComputedStyle(document.body).backgroundColor,
});
</script></body>";

fn page() -> String {
    let slow = PlantedFault::SlowBlock { rank: 1, thread_block: 0, factor: 6.0 };
    let run = ImaginedRun::new(all_reduce("allreduce/ring", 4), 4 << 20, 4).cut_into(1, 4);
    let timeline = joined(&run.with([slow]));
    let expectations = Expectations::default();
    html(&report(&timeline, &expectations), &timeline, &expectations)
}

fn seen(browser: &PathBuf, name: &str, options: &[&str]) -> serde_json::Value {
    let folder = env::temp_dir().join(format!("msccl-page-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("report.html");
    fs::write(&file, page().replace("</body>", LOOK)).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]).args(options);
    command.arg(format!("--user-data-dir={}", folder.display()));
    let output = command.arg(format!("file://{}", file.display())).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let _ = fs::remove_dir_all(&folder);
    let seen = page.split("data-seen=\"").nth(1).unwrap_or_else(|| {
        panic!("the browser has not run the page: {}", String::from_utf8_lossy(&output.stderr))
    });
    let seen = seen.split('"').next().unwrap().replace("&quot;", "\"").replace("&gt;", ">");
    serde_json::from_str(&seen).unwrap()
}

#[test]
fn a_browser_draws_the_page_and_the_slowest_step_is_marked() {
    let Some(browser) = browser() else {
        println!("skipped: this machine has no Chromium, so nobody looks at the page");
        return;
    };
    let seen = seen(&browser, "light", &[]);
    assert!(seen["drawn"].as_u64().unwrap() > 100, "{seen}");
    assert_eq!(seen["drawn"], seen["spans"], "{seen}");
    assert!(seen["marked"][0].as_f64().unwrap() > 5.0, "{seen}");
    assert_eq!(seen["marked"][1], "2.5px", "{seen}");
    let title = seen["title"].as_str().unwrap();
    assert!(title.contains("line 19") || title.contains("line 22"), "{title}");
    assert!(seen["path"].as_f64().unwrap() > 500.0, "{seen}");
    assert_eq!(seen["loaded"], 0, "the page needs nothing else: {seen}");
}

#[test]
fn the_page_is_dark_where_the_reader_wants_it() {
    let Some(browser) = browser() else {
        println!("skipped: this machine has no Chromium, so nobody looks at the page");
        return;
    };
    let light = seen(&browser, "default", &["--blink-settings=preferredColorScheme=1"]);
    let dark = seen(&browser, "dark", &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(
        (&light["page"], &dark["page"]),
        (&"rgb(255, 255, 255)".into(), &"rgb(22, 25, 29)".into())
    );
}

/// What a reader sees first is what the report says first; nothing of the page is elsewhere.
#[test]
fn the_page_stands_alone() {
    let page = page();
    assert!(page.contains("<li>thread block 0 of rank 1 is slow at moving"));
    let slowest = "The slowest step of the critical path is step";
    assert!(page.contains(slowest), "{}", &page[..2000]);
    assert!(page.contains("of thread block 0 of rank 1"));
    for outside in ["src=", "href=", "@import", "url(", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(
        page.matches("class=\"copy slowest\"").count()
            + page.matches("class=\"reduce slowest\"").count(),
        1
    );
}
