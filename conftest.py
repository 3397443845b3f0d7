"""Notebooks are run by nbval, compared by our own rules, with a clean environment and a fresh store."""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from IPython.core.displayhook import DisplayHook
from nbval.plugin import IPyNbCell

sys.path.insert(0, str(Path(__file__).parent / "book" / "_tools"))  # scripts beside the pages, no package

from clean import KERNEL_ENVIRONMENT
from compare import compare_outputs


def pytest_configure(config):
    if config.getoption("nbval"):
        os.environ.update(KERNEL_ENVIRONMENT)
    # A store left on the machine would hide training that no longer works. The workers of pytest-xdist and
    # the notebooks' kernels inherit the variable, and so share one store.
    if "TASKSYM_STORE" not in os.environ:
        store = tempfile.TemporaryDirectory(prefix="tasksym-store-")
        config.add_cleanup(store.cleanup)
        os.environ["TASKSYM_STORE"] = store.name


def pytest_itemcollected(item):
    if isinstance(item, IPyNbCell):
        item.compare_outputs = partial(_compare, item)
        # nbval does not compare a cell that was stored unrun; count 0 makes it a cell without outputs.
        if item.cell.execution_count is None:
            item.cell.execution_count = 0


def _compare(item, fresh, stored):
    """Stand in for nbval's comparison, which knows no tolerance and no figures."""
    # nbval runs cells without history, where IPython overlooks the semicolon that silences a result.
    if DisplayHook.semicolon_at_end_of_expression(item.cell.source):
        fresh = [output for output in fresh if output.output_type != "execute_result"]
    item.comparison_traceback = compare_outputs(stored, fresh)
    return not item.comparison_traceback
