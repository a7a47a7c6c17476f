"""Slides: an executed notebook as a reveal.js deck that needs no network, its print, and the gates that it passes.

`deck` makes the page, `printed` the PDF. `static` looks at the files and `rendered` at each slide in a real Chromium.
"""
