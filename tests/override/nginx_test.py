"""nginx on loam: a master and two workers, 4000 requests, reloads under load, a graceful end.

Static files of many sizes, compressed and not, ranges, includes, and a proxy in front of them.
Every answer is compared with the file. A reload (HUP) ends workers and starts new ones while
requests go on; none may fail. At QUIT all end by themselves.
"""

import gzip
import http.client
import re
import signal
import threading

import preload

WORKERS = 2
CLIENTS = 6
REQUESTS = 4000

CONFIG = r"""
daemon off;
worker_processes @WORKERS@;
pid @DIR@/nginx.pid;
error_log @DIR@/error.log info;
events { worker_connections 256; }
http {
    access_log @DIR@/access.log;
    client_body_temp_path @DIR@/body; proxy_temp_path @DIR@/proxy; fastcgi_temp_path @DIR@/fastcgi;
    uwsgi_temp_path @DIR@/uwsgi; scgi_temp_path @DIR@/scgi;
    types { text/plain txt; application/octet-stream bin; }
    gzip_types text/plain; gzip_min_length 100; gzip_proxied any;
    keepalive_requests 50;
    open_file_cache max=100;
    upstream back { server 127.0.0.1:@BACK@; }
    map $uri $kind { ~\.txt$ text; default other; }
    server {
        listen 127.0.0.1:@PORT@;
        root @DIR@/files;
        add_header X-Kind $kind;
        location / { gzip on; }
        location /proxied/ { proxy_pass http://back/; gzip on; }
        location ~ ^/rewritten/(\d+)/(.*)$ { rewrite ^/rewritten/\d+/(.*)$ /$1 last; }
        location = /gone { return 410 "gone\n"; }
    }
    server { listen 127.0.0.1:@BACK@; root @DIR@/files; }
}
"""


def make_files(folder):
    """Files whose content tells their name, from nothing to half a megabyte."""
    files = {}
    for n, size in enumerate((0, 1, 99, 1000, 4096, 10_000, 65_536, 200_000, 500_000)):
        for ending in ("txt", "bin"):
            name = f"file{n}.{ending}"
            pattern = f"{name} {size} ".encode()
            files[name] = (pattern * (size // len(pattern) + 1))[:size]
            (folder / name).write_bytes(files[name])
    return files


class Clients:
    """Threads that ask until their requests are used up, and compare each answer."""

    def __init__(self, port, files):
        self.port, self.files, self.names = port, files, sorted(files)
        self.lock = threading.Lock()
        self.done, self.wrong = 0, []
        self.threads = [threading.Thread(target=self.client, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def client(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            while not self.wrong:
                with self.lock:
                    turn, self.done = self.done, self.done + 1
                if turn >= REQUESTS:
                    return
                self.ask(connection, turn)
        except Exception as error:  # whatever went wrong belongs into the test's report
            self.wrong.append(f"client {number}: {error!r}")
        finally:
            connection.close()

    def ask(self, connection, turn):
        name = self.names[turn * 7 % len(self.names)]
        content = self.files[name]
        place = ("/", "/proxied/", f"/rewritten/{turn}/")[turn % 3]
        headers = {"Accept-Encoding": "gzip"} if turn % 2 else {}
        ranged = turn % 5 == 0 and len(content) > 100
        if ranged:
            headers["Range"] = "bytes=10-59"
        for attempt in (1, 2):
            try:
                connection.request("GET", place + name, headers=headers)
                answer = connection.getresponse()
                break
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                connection.close()  # a worker that ends may close an idle connection; once is fair
                if attempt == 2:
                    raise
        body = answer.read()
        if answer.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if answer.status == 206:
            content = content[10:60]
        if answer.status not in (200, 206) or body != content:
            self.wrong.append(
                f"{place}{name} {headers}: status {answer.status}, {len(body)} of {len(content)} "
                "bytes"
            )

    def progress(self, share):
        return self.wrong or self.done >= REQUESTS * share

    def finish(self):
        for thread in self.threads:
            thread.join()
        preload.expect(not self.wrong, "; ".join(self.wrong[:5]))


def workers(server):
    """The pids of the workers that are not about to end."""
    return {pid for pid, name in preload.descendants(server.pid).items() if name == "nginx"}


def test(bench):
    nginx = bench.need("nginx")
    user = bench.rootless
    folder = bench.subfolder("nginx", user)
    (folder / "files").mkdir()
    files = make_files(folder / "files")
    port, back = preload.free_port(), preload.free_port()
    config = CONFIG
    for name, value in (("WORKERS", WORKERS), ("DIR", folder), ("PORT", port), ("BACK", back)):
        config = config.replace(f"@{name}@", str(value))
    bench.write("nginx.conf", config)
    argv = [nginx, "-p", folder, "-c", bench.path("nginx.conf"), "-e", folder / "error.log"]
    bench.run([*argv, "-t", "-q"], user=user)
    server = bench.serve(argv, name="nginx", user=user)

    def ready():
        server.alive()
        return (
            preload.answers_on(port)
            and preload.answers_on(back)
            and len(workers(server)) == WORKERS
        )

    preload.wait_until(ready, "nginx")
    clients = Clients(port, files)
    try:
        for share in (0.25, 0.5, 0.75):
            preload.wait_until(lambda: clients.progress(share), f"{share} of the requests", 30)
            before = workers(server)
            for pid in (server.pid, *before):
                bench.mapped_in(pid, user)
            server.process.send_signal(signal.SIGHUP)
            preload.wait_until(lambda: len(workers(server) - before) == WORKERS, "new workers")
    finally:
        clients.finish()
    preload.wait_until(lambda: len(workers(server)) == WORKERS, "the end of the old workers")
    server.process.send_signal(signal.SIGQUIT)
    server.ended()

    log = (folder / "error.log").read_text()
    bad = re.search(
        r"^.*(\[(alert|emerg|crit|error)\]|exited on signal|loam: ).*$", log, re.MULTILINE
    )
    preload.expect(not bad, bad and bad.group())
    exited = len(re.findall(r"worker process \d+ exited with code 0", log))
    preload.expect(
        exited == 4 * WORKERS, f"{exited} workers exited with status 0, not {4 * WORKERS}"
    )
    asked = (folder / "access.log").read_text().count("GET ")
    preload.expect(asked >= REQUESTS, f"{asked} requests in the log, not at least {REQUESTS}")
    bench.answers([*argv, "-t", "-q"], ["nginx"], user=user)


preload.main(test)
