"""Runs a command on a network of its own, whose name server changes its mind: a public address first, loopback from then on.

Prints the questions that the name server got, the addresses at which a host was reached, and what the command printed, as one JSON object.
"""
import json, socket, struct, subprocess, sys, threading

PUBLIC, LOOPBACK = "11.0.0.2", "127.0.0.1"
questions, reached = [], []


def name_server(way):
    while True:
        asked, client = way.recvfrom(512)
        end = asked.index(b"\0", 12) + 5
        kind, = struct.unpack(">H", asked[end - 4:end - 2])
        answers = b""
        if kind == 1:
            address = LOOPBACK if questions else PUBLIC
            questions.append(address)
            answers = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
        head = asked[:2] + struct.pack(">HHHHH", 0x8180, 1, bool(answers), 0, 0)
        way.sendto(head + asked[12:end] + answers, client)


def host(listener):
    while True:
        connection, _ = listener.accept()
        reached.append(connection.getsockname()[0])
        connection.close()


way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
way.bind((LOOPBACK, 53))
listener = socket.create_server(("0.0.0.0", 8080))
for serve, on in ((name_server, way), (host, listener)):
    threading.Thread(target=serve, args=(on,), daemon=True).start()
ran = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
print(json.dumps({"questions": questions, "reached": reached, "code": ran.returncode, "printed": ran.stdout.decode()}))
