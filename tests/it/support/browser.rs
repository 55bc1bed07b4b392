//! A real Chromium, driven through chromedriver: one at a time, as each takes a good part of a machine.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use super::wait::{PATIENCE, wait_for};

/// A browser window.
pub(crate) struct Browser {
    pub(crate) client: Client,
    driver: Child,
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver is the leader of a group in which its browsers are.
        let _ = Command::new("kill").args(["-9", "--", &format!("-{}", self.driver.id())]).status();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts a browser with these Chrome options. `None` where no chromedriver is installed, except in CI,
    /// where it must be.
    pub(crate) async fn start(options: &Value) -> Option<Self> {
        static ONE: Mutex<()> = Mutex::const_new(());
        let one_at_a_time = ONE.lock().await;
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut driver = match command.spawn() {
            Ok(driver) => driver,
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "chromedriver: {error}");
                eprintln!("skipped, for it needs: chromedriver and Chromium");
                return None;
            }
        };
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let port = lines.find_map(|line| Some(line.split_once("successfully on port ")?.1.to_owned()));
        let port = port.expect("chromedriver tells its port").trim_end_matches('.').to_owned();
        let mut chrome = json!({"args": [
            "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,1000"
        ]});
        chrome.as_object_mut().expect("an object").extend(options.as_object().expect("an object").clone());
        let capabilities = json!({"goog:chromeOptions": chrome});
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities.as_object().expect("an object").clone())
            .connect(&format!("http://127.0.0.1:{port}"))
            .await;
        Some(Self { client: client.expect("a browser"), driver, _one_at_a_time: one_at_a_time })
    }

    pub(crate) async fn goto(&self, url: &str) {
        self.client.goto(url).await.expect("a page");
    }

    /// Clicks on what a CSS selector finds, once it is there.
    pub(crate) async fn click(&self, css: &str) {
        let wait = self.client.wait().at_most(PATIENCE);
        wait.for_element(Locator::Css(css)).await.expect(css).click().await.expect(css);
    }

    /// Types into what a CSS selector finds.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        let field = self.client.find(Locator::Css(css)).await.expect(css);
        field.clear().await.expect(css);
        field.send_keys(text).await.expect(css);
    }

    pub(crate) async fn value(&self, css: &str) -> String {
        let field = self.client.find(Locator::Css(css)).await.expect(css);
        field.prop("value").await.expect(css).unwrap_or_default()
    }

    /// Waits until the page shows a text.
    pub(crate) async fn expect_text(&self, text: &str) {
        let path = format!("//*[contains(text(), '{text}')]");
        let wait = self.client.wait().at_most(PATIENCE);
        wait.for_element(Locator::XPath(&path)).await.expect(text);
    }

    /// Waits until the address contains a text, and returns it.
    pub(crate) async fn expect_address(&self, part: &str) -> String {
        wait_for(async || {
            let url = self.client.current_url().await.expect("an address");
            if url.as_str().contains(part) {
                Ok(url.to_string())
            } else {
                Err(format!("at {url}, not {part}"))
            }
        })
        .await
    }

    /// What a script returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect(script)
    }
}
