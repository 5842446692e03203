"""Arms a process that a test has started with the kit's variables: Python imports this file when it starts.

Only where this folder is in PYTHONPATH, which `tests.kit.arming.environment` sees to.
"""

from tests.kit.arming import arm

arm()
