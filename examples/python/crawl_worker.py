"""A crawl worker with nothing but Python's standard library: run as many as you like.

    python crawl_worker.py HOST PORT AUTHKEY_FILE

It takes pages from the master's task_queue, offers their links to filter_queue and reports
their images to result_queue. What it has not finished when it dies goes to others.
"""
import queue
import re
import sys
from html.parser import HTMLParser
from multiprocessing.managers import BaseManager
from urllib.error import HTTPError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener


class Manager(BaseManager):
    pass


for name in ("task_queue", "filter_queue", "result_queue"):
    Manager.register(name)


# Python's codecs for what the Web means by these names.
codecs = {"shift_jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "gb2312": "gb18030",
          "gbk": "gb18030", "iso-8859-1": "cp1252", "us-ascii": "cp1252"}
kept = "!$%&'()*+,-./:;=?@_~#[]|{}^`"


class Page(HTMLParser):
    def __init__(self, url, charset):
        super().__init__()
        self.charset = charset
        self.base, self.links, self.images, self.title, self.in_title = url, [], [], "", False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "base" and attributes.get("href"):
            self.base = urljoin(self.base, attributes["href"])
        elif tag in ("a", "area") and attributes.get("href") is not None:
            self.links.append(self.absolute(attributes["href"].strip()))
        elif tag == "img" and attributes.get("src"):
            self.images.append(urljoin(self.base, attributes["src"].strip()))
        self.in_title = tag == "title" and not self.title

    def absolute(self, href):
        path, mark, query = urljoin(self.base, href).partition("?")
        # Browsers write a query in the charset of its page.
        charset = "utf-8" if self.charset.startswith("utf") else self.charset
        return path + mark + quote(query.encode(charset, "replace"), safe=kept)

    def handle_endtag(self, tag):
        self.in_title = False

    def handle_data(self, data):
        if self.in_title:
            self.title += data


def charset_of(body, header_charset):
    meta = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)", body[:1024])
    marks = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    mark = next((name for mark, name in marks.items() if body.startswith(mark)), None)
    name = (mark or header_charset or (meta and meta.group(1).decode()) or "cp1252").lower()
    try:
        "".encode(codecs.get(name, name))
        return codecs.get(name, name)
    except LookupError:
        return "cp1252"


class SameSite(HTTPRedirectHandler):
    """Follows redirects within the site: another host has rules of its own."""

    def redirect_request(self, request, body, code, message, headers, to):
        if urlsplit(to)[:2] != urlsplit(request.full_url)[:2]:
            return None
        return super().redirect_request(request, body, code, message, headers, to)


opener = build_opener(SameSite)


def work(url, filter_queue, result_queue):
    try:
        answer = opener.open(Request(url, headers={"User-Agent": "crawl-worker"}), timeout=20)
    except HTTPError as error:
        if error.headers.get("Location"):
            filter_queue.put(urljoin(url, error.headers["Location"]))
        result_queue.put({"url": url, "status": error.code})
        return
    with answer:
        kind = answer.headers.get_content_type()
        told = {"url": url, "status": 200, "type": kind, "finalUrl": answer.geturl()}
        if kind not in ("text/html", "application/xhtml+xml"):
            result_queue.put(told)
            return
        body = answer.read(10 << 20)
        charset = charset_of(body, answer.headers.get_content_charset())
        page = Page(answer.geturl(), charset)
        page.feed(body.decode(charset, "replace"))
    for link in page.links:
        filter_queue.put(link)
    told.update(images=page.images, title=page.title.strip(), bytes=len(body))
    result_queue.put(told)


def main(host, port, authkey_file):
    with open(authkey_file, "rb") as file:
        manager = Manager(address=(host, int(port)), authkey=file.readline().strip())
    manager.connect()
    tasks, links, results = manager.task_queue(), manager.filter_queue(), manager.result_queue()
    pages = 0
    while not tasks.empty():
        try:
            url = tasks.get(timeout=30)
        except queue.Empty:
            break
        try:
            work(url, links, results)
        except OSError:
            tasks.release(url)  # again later, by anybody
        pages += 1
        print(url, flush=True)
    print("%d pages" % pages)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
