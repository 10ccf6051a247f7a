"""The documentation site: ``python -m sphinx -W -j auto docs docs/_build``."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils.nodes import literal_block, reference
from sphinx.addnodes import download_reference

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

os.environ["MPLBACKEND"] = "Agg"
os.environ["HEDGEROW_QUIET"] = "1"

import hedgerow  # noqa: E402

# Programs of the gallery start others, in folders of their own: these find the same package.
os.environ["PYTHONPATH"] = str(Path(hedgerow.__file__).parents[1])

project = "Hedgerow"
author = "the Hedgerow developers"
copyright = author
version = release = hedgerow.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"

# -- pages in Markdown ------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# -- reference from docstrings ----------------------------------------------------------
autosummary_generate = True
templates_path = ["_templates"]
autodoc_typehints = "none"
autodoc_mock_imports = ["pyspark", "ray"]  # the reference needs neither installed
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # the column on the right is narrow
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
numpydoc_xref_param_type = False

# -- gallery ----------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "show_signature": False,
    "min_reported_time": 1_000_000,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
    "doc_module": ("hedgerow",),
    "backreferences_dir": None,
    "capture_repr": ("_repr_html_", "__repr__"),
    "matplotlib_animations": False,
}

# -- pages in HTML ----------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = f"Hedgerow {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {name: [] for name in ("start", "benchmarks", "sources/**")}  # no pages below
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def links_of_this_site(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """A page that a docstring names is a link; labels of scikit-learn's user guide are text."""
    for number, line in enumerate(lines):
        line = re.sub(r":(?:ref|term):`([^`<]*?) *(?:<[^`>]*>)?`", r"\1", line)
        lines[number] = re.sub(r"`*\bdocs/([\w-]+)\.md\b`*", r":doc:`/\1`", line)


def language_of_indented_blocks(app: Any, doctree: Any) -> None:
    """Markdown gives indented blocks no language: Python is found by its prompt or its syntax."""
    for block in doctree.findall(literal_block):
        if block.get("language") != "none":
            continue
        try:
            if ">>> " not in block.astext():
                ast.parse(block.astext())
            block["language"] = "python"
        except SyntaxError:
            continue


def sources_as_pages(app: Any, doctree: Any, docname: str) -> None:
    """A link to a program of this repository leads to a page with its code, not to a download."""
    for link in list(doctree.findall(download_reference)):
        if link["reftarget"].startswith("../"):
            uri = app.builder.get_relative_uri(docname, page_of_source(link["reftarget"]))
            link.replace_self(reference("", "", *link.children, refuri=uri, internal=True))


def page_of_source(target: str) -> str:
    """Return the name of the page of a file, from the target of a link: ``../src/...``."""
    return f"sources/{target.removeprefix('../').removesuffix('.py')}"


def pages_of_sources(app: Any) -> Any:
    """Yield these pages."""
    texts = (page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))
    targets = {target for text in texts for target in re.findall(r"\]\((\.\./[^)]+\.py)\)", text)}
    for target in sorted(targets):
        name = target.removeprefix("../")
        code = (ROOT / name).read_text("utf-8")
        body = f"<h1>{name}</h1>{app.builder.highlighter.highlight_block(code, 'python')}"
        yield page_of_source(target), {"title": name, "body": body}, "page.html"


def signature_of_constructor(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str
) -> tuple[str, None] | None:
    """Sphinx looks at ``__new__`` first, which only checks names; users call ``__init__``."""
    if what != "class" or not any(base.__name__ == "NamedArguments" for base in obj.__mro__):
        return None
    found = inspect.signature(obj)
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(inspect.Signature(plain)), None


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-process-signature", signature_of_constructor)
    app.connect("autodoc-process-docstring", links_of_this_site)
    app.connect("doctree-read", language_of_indented_blocks)
    app.connect("doctree-resolved", sources_as_pages)
    app.connect("html-collect-pages", pages_of_sources)
