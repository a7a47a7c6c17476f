"""The tests' browser reaches this machine and nothing else."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from playwright.sync_api import Browser, Error


class Hello(BaseHTTPRequestHandler):
    """Answers everything with one word."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.browser
@pytest.mark.parametrize("address", ["http://pypi.org/", "http://192.0.2.1/", "https://8.8.8.8/"])
def test_other_hosts_are_not_found(browser: Browser, address: str) -> None:
    page = browser.new_page()
    with pytest.raises(Error, match="ERR_NAME_NOT_RESOLVED"):
        page.goto(address)
    page.close()


@pytest.mark.browser
def test_this_machine_answers(browser: Browser) -> None:
    with HTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        assert page.inner_text("body") == "hello"
        page.close()
        server.shutdown()
        thread.join()
