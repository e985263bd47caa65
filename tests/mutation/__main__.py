"""python -m tests.mutation

The last line is a JSON summary. Exit code 1 where a mutant survives that should not.
"""

import json
import sys
from dataclasses import asdict

from tests.mutation.runner import run_mutants

summary = run_mutants()
if summary is None:
    sys.exit("the tests fail without any mutant")
for name in summary.survivors:
    print(f"survives: {name}")
for name in summary.no_survivors:
    print(f"is caught, though it is listed as equivalent: {name}")
print(json.dumps(asdict(summary)))
sys.exit(1 if summary.survivors or summary.no_survivors else 0)
