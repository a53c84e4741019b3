from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
# nbclient and its dependencies warn of their own futures.
@pytest.mark.filterwarnings("default")
def test_notebook(notebook: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    cells: Any = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(cells, timeout=240, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    code = [cell for cell in cells["cells"] if cell["cell_type"] == "code"]
    assert code
    for cell in code:
        assert cell["outputs"], f"no output of:\n{cell['source']}"
        # A progress bar appears where a machine is slow.
        written = [output for output in cell["outputs"] if output.get("name") == "stderr"]
        errors = [output for output in written if not output["text"].startswith("\r")]
        assert not errors, errors
