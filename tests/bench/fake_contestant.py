"""A contestant's process that measures nothing: it speaks the bench's protocol, and misbehaves on demand.

    fake_contestant.py '{"contestants": ["ours"], ...}'

Its argument is JSON. `us`: the samples of a contestant, 10 of each otherwise; `die`, `hang`, `babble`,
`refuse`: a word; a request whose JSON text has it ends the process with exit code 3, is never answered, is
answered with no JSON, or with an error; `lose`: a word; a request that has it is answered with an error,
after which the process ends with exit code 3, unless the file `lose_once` is there, which it makes; `wrong`
and `lacks`: contestants whose results are wrong or that do not exist for a row; `absent`: why the whole
process is; `log`: a file that each request is written to.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from typing import Any


def ready(name: str) -> dict[str, Any]:
    return {
        "nodes": 4,
        "workspace_bytes": 256,
        "variant": f"{name}/1 | plain",
        "plan_capture_cold_ms": 120.5,
        "plan_capture_cached_ms": 8.25,
        "second_start": {"candidates_timed": 0, "heuristic_queries": 0},
        "error_ratio": 0.31,
        "checked": 4096,
    }


def reply_to(request: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    do = request["do"]
    if do == "describe":
        if "absent" in options:
            return {"ok": False, "absent": True, "error": options["absent"]}
        return {
            "ok": True,
            "contestants": options["contestants"],
            "gpu": options.get("gpu", "NVIDIA H200"),
            "gpu_id": options.get("gpu_id", "GPU-1"),
            "driver": "580.1",
            "cuda": "13.0",
            "cublaslt": "13.1.0",
            "versions": options.get("versions", {}),
            "l2_bytes": 62914560,
            "sm_count": 132,
        }
    if do == "prepare":
        prepared: dict[str, Any] = {}
        for name in request["contestants"]:
            prepared[name] = ready(name)
            if name in options.get("wrong", []):
                prepared[name] = {"ok": False, "error": "Y[0,3] is 7, expected 8", "error_ratio": 91.0}
            if name in options.get("lacks", []):
                prepared[name] = {"absent": True, "error": "not this row"}
        return {"ok": True, "prepared": prepared}
    if do == "measure":
        return {"ok": True, "us": options.get("us", {}).get(request["contestant"], [10.0, 10.0, 10.0])}
    if do == "clocks":
        return {"ok": True, "sm_mhz": options.get("sm_mhz")}
    return {"ok": True}


def main() -> int:
    options = json.loads(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        if "log" in options:
            with open(options["log"], "a", encoding="utf-8") as log:
                log.write(line)
        text = json.dumps(request)
        if options.get("die", "\0") in text:
            print("something terrible happened", file=sys.stderr)
            return 3
        if options.get("hang", "\0") in text:
            time.sleep(600)
        if options.get("babble", "\0") in text:
            print("oops", flush=True)
            continue
        if options.get("refuse", "\0") in text:
            print(json.dumps({"ok": False, "error": "wrong result of 32 copies"}), flush=True)
            continue
        if options.get("lose", "\0") in text and not pathlib.Path(options["lose_once"]).exists():
            pathlib.Path(options["lose_once"]).touch()
            print(json.dumps({"ok": False, "error": "an illegal memory access"}), flush=True)
            print("the context is lost", file=sys.stderr)
            return 3
        print(json.dumps(reply_to(request, options)), flush=True)
        if request["do"] == "quit":
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
