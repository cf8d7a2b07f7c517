"""A Gemini that costs nothing: every answer is ready before it is asked for. `python fake_gemini.py PORT`

The model's name says how many chunks to stream: `gemini-bench-n200`. All of them are sent at once, each in a
frame of its own, as a quick model behind a fast network would.
"""

from __future__ import annotations

import re
import socketserver
import sys
from functools import lru_cache

TEXT = "twenty characters.. "


def event(text: str, finish: bool) -> bytes:
    end = ',"finishReason":"STOP"' if finish else ""
    usage = '"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9,"totalTokenCount":18}'
    content = f'{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}}{end},"index":0}}'
    return f'data: {{"candidates":[{content}],{usage},"modelVersion":"bench"}}\r\n\r\n'.encode()


@lru_cache
def answer(chunks: int) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    events = [event(TEXT, number == chunks - 1) for number in range(chunks)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in events) + b"0\r\n\r\n"


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while line := self.rfile.readline():
            length = 0
            while (header := self.rfile.readline()) not in (b"\r\n", b""):
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            self.rfile.read(length)
            found = re.search(rb"-n(\d+)", line)
            self.wfile.write(answer(int(found[1]) if found else 2))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
