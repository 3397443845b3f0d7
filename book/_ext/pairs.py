"""Let Sphinx read the executed notebook of a pair, and pass over the text twin of the same name.

Sphinx would warn of two sources for one page. Pages without code have no notebook and stay as they are.
"""

from pathlib import Path


def skip_twins(app, config):
    notebooks = Path(app.srcdir).glob("book/**/*.ipynb")
    twins = [path.with_suffix(".md").relative_to(app.srcdir).as_posix() for path in notebooks]
    config.exclude_patterns = [*config.exclude_patterns, *twins]


def setup(app):
    app.connect("config-inited", skip_twins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
