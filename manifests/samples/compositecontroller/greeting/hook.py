"""The hook of controller.yaml: for each Greeting, as many Pods as spec.times, which greet spec.who.

usage: hook.py [--port PORT]   PORT is a port of 127.0.0.1; 0, the default, is any that is free
"""
import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def sync(greeting, pods):
    spec = greeting.get("spec", {})
    text = "Hello, %s!" % spec.get("who", "World")
    return {
        "status": {"pods": len(pods)},
        "children": [pod("%s-%d" % (greeting["metadata"]["name"], i), text) for i in range(spec.get("times", 1))],
    }


def pod(name, text):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # What the Pod prints on a simulated node, which runs no containers.
        "metadata": {"name": name, "annotations": {"simulated.millwright.dev/log": text + "\n"}},
        "spec": {"containers": [{"name": "greeting", "image": "busybox:1", "command": ["sh", "-c", "echo '%s'; sleep infinity" % text]}]},
    }


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(sync(request["parent"], request["children"]["Pod.v1"])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("--port", type=int, default=0)
server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Hook)
print("Listening on 127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
