// Search shows a piece of each page it finds; for that it reads the page, which a browser refuses in a plain directory.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
