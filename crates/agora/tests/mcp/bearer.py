"""Passes HTTP on to a server and adds a token: for clients that cannot be told one. Everything else goes through as it was sent.

Usage: bearer.py HOST:PORT TOKEN. Prints the address that it listens on.
"""

import socket
import sys
import threading


def head_of(stream):
    """Reads a request's or a response's head, and what of its body came with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = stream.recv(65536)
        if not more:
            return None, data
        data += more
    head, rest = data.split(b"\r\n\r\n", 1)
    return head, rest


def length_of(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def serve(client, target, token):
    try:
        head, body = head_of(client)
        if head is None:
            return
        missing = length_of(head) - len(body)
        while missing > 0:
            more = client.recv(65536)
            if not more:
                return
            body, missing = body + more, missing - len(more)
        first, *lines = head.split(b"\r\n")
        lines = [line for line in lines if not line.lower().startswith(b"connection:")]
        # One request a connection: whoever wants another connects again.
        lines += [b"Authorization: Bearer " + token, b"Connection: close"]
        with socket.create_connection(target) as server:
            server.sendall(b"\r\n".join([first, *lines]) + b"\r\n\r\n" + body)
            while more := server.recv(65536):
                client.sendall(more)
    except OSError:
        pass
    finally:
        client.close()


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        arguments = (client, (host, int(port)), sys.argv[2].encode())
        threading.Thread(target=serve, args=arguments, daemon=True).start()


main()
