"""Show repository and launch buttons exactly when _config.yml names the repository's address.

The theme fails on launch buttons without an address, and Jupyter Book on repository buttons without one.
"""


def set_buttons(app, config):
    options = config.html_theme_options
    if options.get("repository_url"):
        options.update(use_repository_button=True, use_issues_button=True)
    else:
        options["launch_buttons"] = {}


def setup(app):
    app.connect("config-inited", set_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
