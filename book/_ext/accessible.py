"""Mend generated markup that a screen reader stumbles over."""

REPLACEMENTS = {
    # pandas: an empty header at the corner of a table names nothing.
    "<th></th>": "<td></td>",
    # myst-nb: a folded cell is best named by the text that it shows.
    ' aria-label="Toggle hidden content"': "",
    # docutils: the role is deprecated, and a list may hold only list items.
    'role="doc-biblioentry"': 'role="listitem"',
}


def mend(app, pagename, templatename, context, doctree):
    if "body" in context:
        for old, new in REPLACEMENTS.items():
            context["body"] = context["body"].replace(old, new)


def setup(app):
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
