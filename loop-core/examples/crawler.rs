//! A crawler over a made-up site, in virtual time: a task a page, a limit on how many are fetched at once, a time
//! limit and retries for each. The quarter of a minute that the site takes passes at once.
//!
//! `cargo run -p loop-core --example crawler`

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use loop_core::sync::Semaphore;
use loop_core::{EventLoop, GroupError, LoopRef, TaskBuilder, TaskGroup, sleep, timeout};

/// Page, seconds to answer, failures before the first answer, links.
type Page = (&'static str, u64, u32, &'static [&'static str]);

const SITE: &[Page] = &[
    ("/", 1, 0, &["/docs", "/blog", "/lost"]),
    ("/docs", 2, 0, &["/", "/docs/tasks", "/docs/slow"]),
    ("/docs/tasks", 1, 2, &["/docs"]),
    ("/docs/slow", 3600, 0, &["/never-seen"]),
    ("/blog", 1, 9, &[]),
];

const LIMIT: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 4;

/// What is known of each page: how many attempts it took, or why there is none.
pub type Findings = BTreeMap<&'static str, Result<u32, String>>;

struct Crawl {
    findings: RefCell<Findings>,
    connections: Semaphore,
}

/// Stands for a request over the network.
async fn fetch(url: &str, attempt: u32) -> io::Result<&'static [&'static str]> {
    let page = SITE.iter().find(|page| page.0 == url);
    let (_, seconds, failures, links) = page.ok_or(io::ErrorKind::NotFound)?;
    sleep(Duration::from_secs(*seconds)).await;
    if attempt <= *failures {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok(links)
}

/// Tries again after failures that may pass, each time a little later.
async fn fetch_patiently(crawl: &Crawl, url: &str) -> io::Result<(u32, &'static [&'static str])> {
    let mut pause = Duration::from_secs(1);
    let mut attempt = 1;
    loop {
        let fetched = {
            let _connection = crawl.connections.acquire().await;
            timeout(LIMIT, fetch(url, attempt)).await?
        };
        match fetched {
            Ok(links) => return Ok((attempt, links)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => sleep(pause).await,
        }
        pause *= 2;
        attempt += 1;
    }
}

/// Starts a task for a page that is not known yet.
fn visit(group: &TaskGroup<Infallible>, crawl: &Rc<Crawl>, url: &'static str) {
    if crawl.findings.borrow().contains_key(url) {
        return;
    }
    crawl.findings.borrow_mut().insert(url, Err("under way".to_owned()));
    let (siblings, crawl) = (group.clone(), crawl.clone());
    group.spawn_with(TaskBuilder::new().name(url), async move {
        let found = fetch_patiently(&crawl, url).await;
        for link in found.iter().flat_map(|(_, links)| links.iter()) {
            visit(&siblings, &crawl, link);
        }
        let found = found.map(|(attempts, _)| attempts).map_err(|error| error.to_string());
        crawl.findings.borrow_mut().insert(url, found);
        Ok(())
    });
}

/// Crawls the site from its root, with at most two requests at once.
pub async fn crawl() -> Result<Findings, GroupError<Infallible>> {
    let crawl = Rc::new(Crawl { findings: RefCell::default(), connections: Semaphore::new(2) });
    TaskGroup::scope(async |group| {
        visit(&group, &crawl, "/");
        Ok(())
    })
    .await?;
    Ok(crawl.findings.take())
}

/// The findings, and how much of the site's time it took.
pub fn run() -> Result<(Findings, Duration), Box<dyn Error>> {
    let mut event_loop = EventLoop::builder().simulated()?.build()?;
    let outcome = event_loop.run_until_complete(async {
        let start = LoopRef::current().now();
        let findings = crawl().await;
        (findings, LoopRef::current().now() - start)
    });
    let (findings, took) = outcome?;
    Ok((findings?, took))
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let (findings, took) = run()?;
    for (page, found) in findings {
        match found {
            Ok(attempts) => println!("{page}: attempt {attempts}"),
            Err(error) => println!("{page}: {error}"),
        }
    }
    println!("{} s of the site's time", took.as_secs());
    Ok(())
}
