"""Sphinx's settings for the course's site. `labsim site` lays out the sources and says where MathJax lies."""

project = "labsim"
html_title = "labsim"
language = "en"

extensions = ["myst_nb"]
exclude_patterns = ["README.md", "static"]  # index and terminal include the README's parts

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"  # tables in a cell's output are tables
nb_ipywidgets_js = {}  # widgets draw themselves: no manager is fetched
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_permalinks_icon = "#"
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#00588a", "color-brand-content": "#00588a"},
    "dark_css_variables": {"color-brand-primary": "#6cb8ea", "color-brand-content": "#6cb8ea"},
}
