"""A notebook as it stands in JupyterLab's page: run it, read it, edit a cell."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

# The notebook as JupyterLab holds it. (In the page an error looks like any text on stderr.)
CELLS = "window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.filter(cell => cell.cell_type === 'code')"
FAILURES = f"{CELLS}.flatMap(cell => cell.outputs).filter(output => output.output_type === 'error')"
# Every code cell has its number, or one has failed: then those after it never get one.
FINISHED = f"() => {CELLS}.every(cell => cell.execution_count !== null) || {FAILURES}.length > 0"


KERNEL_IS_IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def open_notebook(page: Page, address: str) -> None:
    """Open the notebook, in JupyterLab or Notebook 7, and wait until its kernel can take a cell."""
    page.goto(address)
    expect(page.locator(".jp-NotebookPanel:visible .jp-CodeCell").first).to_be_visible(timeout=60_000)
    page.wait_for_function(KERNEL_IS_IDLE, timeout=60_000, polling=200)


def run_menu(page: Page, entry: str) -> None:
    """Choose an entry of the menu Run."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=entry, exact=True).click()


def run_all_cells(page: Page, address: str) -> None:
    """Open the notebook, choose Run > Run All Cells, and wait until the kernel has worked through them."""
    open_notebook(page, address)
    run_menu(page, "Run All Cells")
    page.wait_for_function(FINISHED, timeout=300_000, polling=200)
    page.wait_for_function(KERNEL_IS_IDLE, timeout=60_000, polling=200)


def failures(page: Page) -> list[str]:
    """Errors in the notebook's outputs, and uncaught ones in the page's own code."""
    outputs = page.evaluate(FAILURES)
    return [f"{output['ename']}: {output['evalue']}" for output in outputs] + page.console_errors


def cell_with(page: Page, text: str) -> Locator:
    """The first code cell whose source holds `text`."""
    return page.locator(
        ".jp-NotebookPanel:visible .jp-CodeCell", has=page.locator(".jp-InputArea", has_text=text)
    ).first


def write_and_run(page: Page, cell: Locator, source: str) -> None:
    """Replace a cell's source as a learner would, and run it with Shift+Enter."""
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)
    page.keyboard.press("Shift+Enter")
