"""A crawl worker with requests and lxml that fetches several pages at once.

    python crawl_worker_lxml.py HOST PORT AUTHKEY_FILE [PAGES_AT_ONCE]

It collects pages while there are any, fetches them by threads, and puts what they hold. Every put
names its page, so that the master knows which of them are done, however this program ends.
"""
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.managers import BaseManager
from urllib.parse import quote, urljoin, urlsplit

import requests
from lxml import html


class Manager(BaseManager):
    pass


for name in ("task_queue", "filter_queue", "result_queue"):
    Manager.register(name)
# Python's codecs for what the Web means by these names.
codecs_of_the_web = {"shift_jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "gb2312": "gb18030",
                     "gbk": "gb18030", "iso-8859-1": "cp1252", "us-ascii": "cp1252"}
session = requests.Session()
session.headers["User-Agent"] = "crawl-worker-lxml"


def absolute(base, link, charset):
    """The URL of a link: browsers write its query in the charset of the page."""
    path, mark, query = urljoin(base, link.strip()).partition("?")
    name = (charset or "utf-8").lower()
    name = "utf-8" if name.startswith("utf") else codecs_of_the_web.get(name, name)
    return path + mark + quote(query.encode(name, "replace"), safe="!$%&'()*+,-./:;=?@_~#[]|{}^`")


def fetch(url):
    """What is to be put for the page; None: try again later."""
    found = {"url": url, "links": [], "images": []}
    try:
        answer = session.get(url, timeout=20, allow_redirects=False)
        for _ in range(10):
            to = answer.is_redirect and urljoin(answer.url, answer.headers["Location"])
            # Another site has rules of its own, which the master keeps.
            if not to or urlsplit(to)[:2] != urlsplit(url)[:2]:
                break
            answer = session.get(to, timeout=20, allow_redirects=False)
    except requests.RequestException:
        return None
    found["status"] = answer.status_code
    found["type"] = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    found["finalUrl"] = answer.url
    if answer.is_redirect:
        found["links"] = [urljoin(answer.url, answer.headers["Location"])]
    elif found["status"] == 200 and found["type"] == "text/html" and answer.content.strip():
        tree = html.fromstring(answer.content)
        base = urljoin(answer.url, (tree.xpath("//base/@href") or [""])[0])
        charset = tree.getroottree().docinfo.encoding
        hrefs = tree.xpath("//a/@href|//area/@href")
        found["links"] = [absolute(base, href, charset) for href in hrefs]
        sources = [src.strip() for src in tree.xpath("//img/@src")]
        found["images"] = [urljoin(base, src) for src in sources if src]
        found["bytes"] = len(answer.content)
    return found


def main(host, port, authkey_file, at_once="8"):
    with open(authkey_file, "rb") as file:
        manager = Manager(address=(host, int(port)), authkey=file.readline().strip())
    manager.connect()
    tasks, results = manager.task_queue(), manager.result_queue()
    pages = 0
    with ThreadPoolExecutor(int(at_once)) as pool:
        while not tasks.empty():
            urls = [tasks.get() for _ in range(int(at_once)) if not tasks.empty()]
            for url, found in zip(urls, pool.map(fetch, urls)):
                if found is None:
                    tasks.release(url)
                    continue
                results.put(found)
                tasks.task_done(url)
                pages += 1
    print("%d pages" % pages)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
