"""Send many requests with wrong tokens over one connection: `python -m journeys.flood PORT REQUESTS`."""

from __future__ import annotations

import http.client
import json
import secrets
import sys
from collections import Counter

from rota.core.access import secret_of


def flood(port: int, requests: int) -> Counter[int]:
    """How often each status was answered; the requests name 100 addresses by turns."""
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    statuses: Counter[int] = Counter()
    for number in range(requests):
        wrong = secret_of(secrets.token_hex(4).translate(str.maketrans("0189", "abcd")), "b" * 32)
        headers = {"Authorization": f"Bearer {wrong}", "X-Forwarded-For": f"198.51.100.{number % 100}"}
        caller.request("GET", "/v1/jobs", headers=headers)
        response = caller.getresponse()
        response.read()
        statuses[response.status] += 1
    caller.close()
    return statuses


if __name__ == "__main__":
    # The one that started this process says when, so that the start of Python is not measured.
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(flood(int(sys.argv[1]), int(sys.argv[2]))))
