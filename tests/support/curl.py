"""As much of curl as the README needs, for machines that have none.

python tests/support/curl.py -s localhost:8000/livez
"""

import argparse
import sys
import urllib.error
import urllib.request
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-X", "--request")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    given = parser.parse_args()
    url = given.url if "://" in given.url else f"http://{given.url}"
    headers = dict(header.split(": ", 1) for header in given.header)
    body = None if given.data is None else given.data.encode()
    if body is not None and body.startswith(b"@"):
        body = Path(given.data[1:]).read_bytes()
    request = urllib.request.Request(url, body, headers, method=given.request)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            sys.stdout.buffer.write(answer.read())
    except urllib.error.HTTPError as refused:  # like curl: an answer is an answer
        sys.stdout.buffer.write(refused.read())
    except urllib.error.URLError as error:
        sys.stderr.write(f"{error.reason}\n")
        return 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
