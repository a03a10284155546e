#!/usr/bin/env python3
"""An adapter for any program that reads a prompt and prints a reply, and forgets both, such as `ollama run NAME`.

AGENT_COMMAND, from an env bundle, is the program; the subagent's model is its last argument. The conversation is kept
here, in a file that agora keeps with the thread. To ask, the program prints its question and ends with code 10.
"""
import json, os, pathlib, shlex, subprocess, sys

ASKS = 10


def main(job):
    if job["schema"] != 1:
        return failure("this adapter knows schema 1, agora speaks %s" % job["schema"])
    if "AGENT_COMMAND" not in os.environ:
        return failure("AGENT_COMMAND is not set: put it into an env bundle")
    kept = pathlib.Path(job["sessionDir"], "transcript.json")
    if job["session"]:  # It goes on: the files are back, and `followUp` holds what is new.
        transcript = json.loads(kept.read_text()) + [["user", job["followUp"]]]
    else:
        told = [job["systemPrompt"], job["teaching"], job["prompt"]]
        transcript = [["user", "\n\n".join(part for part in told if part)]]
    command = shlex.split(os.environ["AGENT_COMMAND"]) + ([job["model"]] if job["model"] else [])
    prompt = "\n\n".join("%s: %s" % (who, text) for who, text in transcript)
    # Its standard error is ours, and goes to the log. Its standard output is not ours to print: only the answer is.
    ran = subprocess.run(command, input=prompt.encode(), stdout=subprocess.PIPE)
    reply = ran.stdout.decode(errors="replace").strip()
    kept.write_text(json.dumps(transcript + [["agent", reply]]))
    answer = {"session": "transcript", "usage": {"turns": 1}, "text": reply}
    if ran.returncode == ASKS:
        return {**answer, "question": {"question": reply, "partial_state": {"turns": len(transcript)}}}
    if ran.returncode != 0:
        return {**answer, **failure("`%s` ended with code %d" % (command[0], ran.returncode))}
    return {**answer, "success": True}


def failure(detail):
    return {"success": False, "failure": {"code": "agent-exit", "detail": detail}}


print(json.dumps(main(json.load(sys.stdin.buffer))))
