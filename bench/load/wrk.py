"""Load by wrk: one thread, connections kept alive."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.load.work import Load, Work
from bench.processes import HOST, NotMeasured

FIXED = """
local headers = {["content-type"] = "application/json"}
local requests, at = {}, 0

function init(args)
  for body in io.lines(BODIES) do
    requests[#requests + 1] = wrk.format("POST", PATH, headers, body)
  end
end

local function fixed()
  at = at % #requests + 1
  return requests[at]
end

request = fixed
"""

REVEALING = """
-- Connections share this script. What an answer brings is the next request to be made, and wrk makes that of
-- the connection that was answered: so each connection predicts and reveals in turn.
local reveals, first, last = {}, 1, 0

function request()
  if first > last then return fixed() end
  local reveal = reveals[first]
  reveals[first] = nil
  first = first + 1
  return reveal
end

function response(status, _, body)
  if status ~= 200 then return end
  local id, label = body:match('^{"prediction_id":"([^"]+)","model":"[^"]+","label":(%-?%d+),"score"')
  if id == nil then return end
  if math.random(10) == 1 then label = -label end
  last = last + 1
  local body = '{"prediction_id":"' .. id .. '","label":' .. label .. '}'
  reveals[last] = wrk.format("POST", "/feedback", headers, body)
end
"""

DONE = """
function done(summary)
  local e = summary.errors
  io.write(string.format('\\n{"requests": %d, "not_ok": %d, "microseconds": %d}\\n', summary.requests,
    e.status + e.connect + e.read + e.write + e.timeout, summary.duration))
end
"""


def is_here() -> bool:
    return shutil.which("wrk") is not None


def run(port: int, work: Work, seconds: float, connections: int) -> Load:
    """For whole seconds, as wrk counts."""
    with tempfile.TemporaryDirectory() as directory:
        bodies = Path(directory, "bodies")
        bodies.write_bytes(b"\n".join(work.bodies) + b"\n")
        script = Path(directory, "work.lua")
        known = f"local BODIES, PATH = {json.dumps(str(bodies))}, {json.dumps(work.path)}\n"
        script.write_text(known + FIXED + (REVEALING if work.reveals else "") + DONE)
        command = [
            *("wrk", "--threads", "1", "--connections", str(connections), "--timeout", "10s"),
            *("--duration", f"{max(1, round(seconds))}s", "--script", str(script)),
            f"http://{HOST}:{port}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    try:
        told = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise NotMeasured(f"wrk failed: {(done.stderr or done.stdout).strip()[-200:]}") from None
    return Load(told["requests"], told["not_ok"], told["microseconds"] / 1e6)
