"""nginx as deploy/nginx has it, on a free port of 127.0.0.1, in front of given replicas."""

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import piped, started
from tests.support.real_parts import part, program

FOLDER = Path(__file__).parent.parent.parent / "deploy/nginx"
PACKAGES = "nginx libnginx-mod-http-js"
MAIN = """
load_module {module};
daemon off;
pid {folder}/nginx.pid;
error_log stderr notice;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/octavo.conf;
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def nginx(folder: Path, replicas: Sequence[str], *, room: int = 64) -> Iterator[str]:
    """Its base URL. `replicas` are host:port; `room` is how many requests each may have."""
    binary = program("nginx", PACKAGES)
    module = part(Path("/usr/lib/nginx/modules/ngx_http_js_module.so"), PACKAGES)
    port = free_port()
    (folder / "octavo.conf").write_text(_for_replicas(port, replicas, room))
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, module=module))
    command = [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with started(command) as process:
        # The first worker is there after the socket.
        log = piped(process.stderr)
        lines = []
        for line in log:
            lines.append(line)
            if "start worker process " in line:
                break
        else:
            raise AssertionError(f"nginx did not start: {''.join(lines)}")
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate()


def _for_replicas(port: int, replicas: Sequence[str], room: int) -> str:
    """The configuration as it is kept, but for addresses, paths and the room of a replica."""
    text = (FOLDER / "octavo.conf").read_text(encoding="utf-8")
    server = re.compile(r"^ +server 127\.0\.0\.1:\d+ max_conns=64 (.+;)\n", re.MULTILINE)
    options = server.findall(text)
    assert len(options) == 2
    assert len(set(options)) == 1
    lines = [f"    server {name} max_conns={room} {options[0]}\n" for name in replicas]
    text = server.sub("", text).replace("consistent;\n", "consistent;\n" + "".join(lines))
    for old, new in (
        ("listen 8080;", f"listen 127.0.0.1:{port};"),
        ("/etc/nginx/octavo/prompt_head.js", str(FOLDER / "prompt_head.js")),
    ):
        assert text.count(f" {old}") + text.count(f" {old};") >= 1
        text = text.replace(old, new)
    return text
